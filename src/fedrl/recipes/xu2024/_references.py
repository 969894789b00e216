"""Reference values for the curves, in m/s: drivers that learn nothing, and traffic that SUMO drives alone."""

from functools import cache, partial
from typing import Any

import numpy as np

from fedrl.recipes.xu2024 import _drivers as drivers

EPOCHS = 3
ACCELERATE, SUMO = (drivers.ACCELERATE, "agents"), ("SUMO drives all", "sumo")


@cache
def figure_eight(length: int, acceleration: float) -> dict[str, float]:
    """In arrays, except for SUMO's own."""
    found = {name: float(speed.mean()) for name, speed in drivers.speeds(length, acceleration).items()}
    return found | _in_sumo("FigureEight", length, SUMO)


def merge(length: int) -> dict[str, float]:
    return _in_sumo("Merge", length, ACCELERATE, SUMO)


@cache
def _in_sumo(network: str, length: int, *named: tuple[str, str]) -> dict[str, float]:
    """Mean speeds in m/s over a few epochs in SUMO; nothing where it is not installed."""
    try:
        from fedrl.environments.traffic import sumo
    except ImportError:
        return {}
    from fedrl.environments.subprocess_env import SubprocessEnv

    found = {}
    for name, driver in named:
        env = SubprocessEnv(partial(getattr(sumo, network), driver, horizon=length))
        try:
            found[name] = float(np.mean([_mean_speed(env, seed) for seed in range(EPOCHS)]))
        finally:
            env.close()
    return found


def _mean_speed(env: Any, seed: int) -> float:
    """Over one epoch in which every agent's action is 1; only the agents on the road act."""
    env.reset(seed=seed)
    total, steps = 0.0, 0
    while env.agents:
        *_, infos = env.step({agent: np.ones(1, np.float32) for agent in env.agents})
        total, steps = total + next(iter(infos.values()))["mean_speed"], steps + 1
    return total / steps
