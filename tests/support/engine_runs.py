"""Runs that several engine tests share: the bytes a run ends with, and a federation of real Gymnasium environments."""

import threading
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import jax
import numpy as np

from fedrl.evaluation import Evaluation
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import gymnasium

SEEDS = [5, 6]


def end_state(
    method,
    engine,
    federation: Federation,
    evaluation: Evaluation,
    *,
    rounds: int = 6,
    before: Callable[[int], None] = id,
) -> list[bytes]:
    """All that a run of two seeds, measured every other round, ends with; `before(round)` is called as it goes."""
    algorithm = method(federation)
    play = engine(algorithm, federation, evaluation(algorithm, federation), 2)
    state, metrics = play.init(SEEDS)
    logs = [metrics]
    for number in range(rounds):
        before(number)
        state, metrics = play.advance(state, number, 1)
        logs.append(metrics)
    play.close()
    return [_bytes(leaf) for leaf in jax.tree.leaves((state, logs))]


def _bytes(leaf: Any) -> bytes:
    key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if key else leaf).tobytes()


def frozen_lakes(clients: int, make_env: Callable[[int], gym.Env] | None = None) -> Federation:
    """Gymnasium's FrozenLake, on a slope that differs from client to client."""
    return gymnasium(
        make_env or (lambda client: gym.make("FrozenLake-v1", success_rate=0.9 - 0.2 * client)),
        clients,
        max_episode_steps=12,
    )


def huge_rewards(clients: int) -> Federation:
    return frozen_lakes(
        clients, lambda client: gym.wrappers.TransformReward(gym.make("FrozenLake-v1"), lambda reward: 1e12)
    )


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """What `function` returns; it must not take longer."""
    result: list = []

    def run() -> None:
        try:
            result.append((function(), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert result, f"still not done after {seconds} s"
    value, error = result[0]
    if error:
        raise error
    return value
