"""Epochs of the Figure Eight in SUMO, recorded in a process of its own: libsumo holds one simulation per process."""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

STEPS = 1500
NOISE = 0.2


class Controller(NamedTuple):
    """Acts with `wish + spread * u - tracks * v`, clipped to [-1, 1]; u is uniform in [-1, 1] and held for `hold` steps."""

    wish: float = 0.0
    spread: float = 0.0
    tracks: float = 0.0
    acceleration: float = 1.0
    hold: int = 1


CONTROLLERS: dict[str, Controller | None] = {
    "humans": None,  # in every vehicle
    "constant 1": Controller(wish=1.0),
    "constant 3": Controller(wish=1.0, acceleration=3.0),
    "uniform": Controller(spread=1.0),
    "uniform 3": Controller(spread=1.0, acceleration=3.0),
    "to 12 m/s": Controller(wish=12.0, tracks=1.0),
    "to 8 m/s": Controller(wish=8.0, tracks=1.0),
    "moody": Controller(wish=7.0, spread=8.0, tracks=1.0, acceleration=3.0, hold=80),
    "sullen": Controller(wish=0.2, spread=1.5, hold=30),
}


class RecordedEpoch(NamedTuple):
    """States before and after each of T steps are [T + 1, ...], what happens in a step is [T, ...]."""

    position: np.ndarray  # [T + 1, 14]
    speed: np.ndarray  # [T + 1, 14]
    observations: np.ndarray  # [T + 1, 7, 6]
    rewards: np.ndarray  # [T]
    numbers: (
        np.ndarray
    )  # [T, 14] accelerations (m/s^2) of learning vehicles, standard normal noise of humans; [T + 1, 14]
    #                      if vehicles collided in one more step, whose result SUMO does not report


def actions_at_rest(controller: Controller, seed: int) -> np.ndarray:
    """Its actions for vehicles at rest: `wish + spread * u`, [STEPS, 7]."""
    count = -(-STEPS // controller.hold)
    uniform = np.random.default_rng(seed).uniform(-1.0, 1.0, (count, 7))
    return controller.wish + controller.spread * np.repeat(uniform, controller.hold, axis=0)[:STEPS]


def record(names: Sequence[str], seeds: Sequence[int], relative: bool = False) -> dict[str, list[RecordedEpoch]]:
    """Epochs of every controller, in this process."""
    from fedrl.environments.traffic.sumo.figure_eight import FigureEight

    epochs = {}
    for name in names:
        controller = CONTROLLERS[name]
        settings = {"acceleration": controller.acceleration} if controller else {"driver": "humans"}
        env = FigureEight(**settings, relative=relative, noise=NOISE, speed_dev=0.0)
        epochs[name] = [_epoch(env, controller, seed) for seed in seeds]
        env.close()
    return epochs


def recorded(*args: Any) -> dict[str, list[RecordedEpoch]]:
    """`record`, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(record, *args).result(timeout=300.0)


def _epoch(env: Any, controller: Controller | None, seed: int) -> RecordedEpoch:
    seen, road, rewards, numbers = [env.begin(seed)], [(env._x, env._v)], [], []
    for action in actions_at_rest(controller or Controller(), seed):
        now = np.array(env._shocks[env.time]) / (NOISE * sqrt(0.1))
        if controller:
            action = np.clip(action - controller.tracks * np.array(env._v)[1::2], -1.0, 1.0)
            now = np.stack([now, controller.acceleration * action], axis=1).ravel()
        numbers.append(now)
        outcome = env.advance(action)
        if outcome.crash:
            break
        for row, new in ((seen, outcome.observations), (road, (env._x, env._v)), (rewards, outcome.reward)):
            row.append(new)
    position, speed = (np.array(x) for x in zip(*road, strict=True))
    return RecordedEpoch(position, speed, np.array(seen), np.array(rewards), np.array(numbers))
