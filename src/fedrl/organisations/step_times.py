"""How long a site's environment takes for a reset and a step, and how many steps a round asks of a client."""

import time
from typing import Any, NamedTuple

import numpy as np

from fedrl.environments.checks import WarnOnce
from fedrl.environments.protocol import Discrete, MultiDiscrete, Simulator, Space
from fedrl.federations.gymnasium_envs import GymnasiumSimulator
from fedrl.organisations import environments
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.site import Site
from fedrl.types import Algorithm

MOST_STEPS, LONG_ENOUGH = 200, 2.0  # steps to time, and the seconds after which fewer are enough


class Trial(NamedTuple):
    """An environment after its first reset, as one copy of the site's first client."""

    simulator: Simulator
    rows: int  # 1, or how many agents there are
    seconds: float  # of the reset


def first_reset(site: Site, agreement: Agreement, env: Any) -> Trial:
    """`EnvironmentFailed` if the reset raises, or returns anything but a finite observation of its space."""
    first = agreement.clients_of(site.name).start
    if site.kind == "pettingzoo":
        env.close()
        host: Any = environments.federation(site, agreement).environment
        simulator = host.open(first, None, environments.COPY[site.kind])
    else:
        simulator = GymnasiumSimulator(first, [env], agreement.rescale, WarnOnce())
    began = time.perf_counter()
    rows = len(simulator.reset(np.arange(1), np.zeros(1, np.uint64)))
    return Trial(simulator, rows, time.perf_counter() - began)


def time_steps(trial: Trial, actions: Space) -> tuple[int, float]:
    """How many steps of random actions were taken, and the seconds for each, with the resets between episodes."""
    random, began, count = np.random.default_rng(0), time.perf_counter(), 0
    while count < MOST_STEPS and time.perf_counter() - began < LONG_ENOUGH:
        _, _, terminated, truncated = trial.simulator.step(_draw(random, actions, trial.rows))
        count += 1
        if (terminated | truncated).any():
            trial.simulator.reset(np.arange(1), np.full(1, count, np.uint64))
    return count, (time.perf_counter() - began) / count


def most_steps(algorithm: Algorithm, agreement: Agreement) -> int:
    """Environment steps that a round can ask of one client, 0 if the learner does not say."""
    training = sum(one.local.local_steps * one.local.most_env_steps for one in algorithm.exchanges)
    evaluation = agreement.episodes * agreement.max_episode_steps
    return training + evaluation if training else 0


def short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _draw(random: np.random.Generator, actions: Space, rows: int) -> np.ndarray:
    """One random action per row, as a policy gives it."""
    if isinstance(actions, Discrete):
        return random.integers(actions.n, size=rows).astype(np.int32)
    if isinstance(actions, MultiDiscrete):
        return random.integers(actions.sizes, size=(rows, len(actions.sizes))).astype(np.int32)
    return random.uniform(-1.0, 1.0, (rows, *actions.shape)).astype(np.float32)
