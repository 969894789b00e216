"""Epochs of the Figure Eight in SUMO, recorded in a process of its own: libsumo holds one simulation per process."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

STEPS = 1500
NOISE = 0.2


class Controller(NamedTuple):
    act: (
        Callable[..., Any] | None
    )  # (speed [7], uniform numbers in [-1, 1] [7]) -> actions; None: humans drive everyone
    acceleration: float = 1.0


CONTROLLERS = {
    "humans": Controller(None),
    "constant 1": Controller(lambda v, u: 0.0 * v + 1.0),
    "constant 3": Controller(lambda v, u: 0.0 * v + 1.0, acceleration=3.0),
    "uniform": Controller(lambda v, u: u),
    "uniform 3": Controller(lambda v, u: u, acceleration=3.0),
    "to 12 m/s": Controller(lambda v, u: 12.0 - v),
    "to 8 m/s": Controller(lambda v, u: 8.0 - v),
    "moody": Controller(lambda v, u: 7.0 + 8.0 * u - v, acceleration=3.0),
}


class Epoch(NamedTuple):
    """[T + 1, ...] for what is seen before and after each of T steps, [T, ...] for what is done in it."""

    position: np.ndarray  # [T + 1, 14]
    speed: np.ndarray  # [T + 1, 14]
    observations: np.ndarray  # [T + 1, 7, 6]
    rewards: np.ndarray  # [T]
    numbers: np.ndarray  # [T, 14] accelerations (m/s^2) of learning vehicles, standard normal noise of humans


def luck(name: str, seed: int) -> np.ndarray:
    """Uniform numbers [STEPS, 7] for a controller; a mood lasts eight seconds."""
    hold = 80 if name == "moody" else 1
    numbers = np.random.default_rng(seed).uniform(-1.0, 1.0, (-(-STEPS // hold), 7))
    return np.repeat(numbers, hold, axis=0)[:STEPS]


def record(names: Sequence[str], seeds: Sequence[int], relative: bool = False) -> dict[str, list[Epoch]]:
    """Epochs of every controller, in this process."""
    from fedrl.environments.traffic.figure_eight import FigureEight

    found = {}
    for name in names:
        act, acceleration = CONTROLLERS[name]
        driver = "agents" if act else "humans"
        env = FigureEight(driver, acceleration=acceleration, relative=relative, noise=NOISE, speed_dev=0.0)
        found[name] = [_epoch(env, CONTROLLERS[name], luck(name, seed), seed) for seed in seeds]
        env.close()
    return found


def recorded(*args: Any) -> dict[str, list[Epoch]]:
    """`record`, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(record, *args).result(timeout=60.0)


def _epoch(env: Any, controller: Controller, uniform: np.ndarray, seed: int) -> Epoch:
    """One epoch; a step that ends in a crash is left out, since SUMO does not say where it led."""
    seen, road, rewards, numbers = [env.begin(seed)], [(env._x, env._v)], [], []
    for chance in uniform:
        actions = np.clip(controller.act(np.array(env._v)[1::2], chance), -1.0, 1.0) if controller.act else chance
        now = np.array(env._shocks[env.time]) / (NOISE * sqrt(0.1))
        if controller.act:
            now = np.stack([now, controller.acceleration * actions], axis=1).ravel()
        outcome = env.advance(actions)
        if outcome.crash:
            break
        for row, new in ((seen, outcome.observations), (road, (env._x, env._v)), (rewards, outcome.reward)):
            row.append(new)
        numbers.append(now)
    position, speed = (np.array(x) for x in zip(*road, strict=True))
    return Epoch(position, speed, np.array(seen), np.array(rewards), np.array(numbers))
