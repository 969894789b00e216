"""Reference values for the curves: agents that always accelerate, and traffic that SUMO drives alone."""

from functools import cache, partial
from typing import Any

import numpy as np

EPOCHS = 3


def figure_eight(length: int) -> dict[str, float]:
    return _speeds("FigureEight", length)


def merge(length: int) -> dict[str, float]:
    return _speeds("Merge", length)


@cache
def _speeds(network: str, length: int) -> dict[str, float]:
    """Mean speeds in m/s over a few epochs in SUMO; nothing where it is not installed."""
    try:
        from fedrl.environments.traffic import sumo
    except ImportError:
        return {}
    from fedrl.environments.subprocess_env import SubprocessEnv

    found = {}
    for name, driver in (("always accelerate", "agents"), ("SUMO drives all", "sumo")):
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
