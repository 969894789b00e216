"""MuJoCo's HalfCheetah, Walker2d and Hopper, all copies of a client stepped together on a pool of threads.

Observations, rewards, ends and resets are those of Gymnasium's v5 environments to the bit, except that observations are
float32 here. `mujoco.batch` keeps the whole integration state of a copy, the solver's warm start included, so stepping
copies together gives the same result as stepping each alone, with any number of threads.
"""

import os
from collections.abc import Callable

import jax
import mujoco
import numpy as np
from jax import Array
from mujoco.batch import Batch, SimulationError

from fedrl import keys
from fedrl.arguments import checked, checked_only
from fedrl.environments.checks import check_finite_rows
from fedrl.environments.control.mujoco_tasks import (
    HALF_CHEETAH,
    HOPPER,
    WALKER2D,
    MujocoParams,
    Task,
    compile_model,
    params,
    validate,
)
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Box, Host, StepArrays

THINNEST_LEG = 0.01
THICKEST_LEG = {"low": 0.07, "medium": 0.10, "high": 0.15}


# threads=None: as many as there are processors, divided between the worker processes of an engine.


@checked
def half_cheetah(gamma: float = 0.99, max_episode_steps: int = 1000, *, threads: int | None = None) -> Host:
    """Never terminates, is only truncated."""
    return _host(HALF_CHEETAH, gamma, max_episode_steps, threads)


@checked
def walker2d(gamma: float = 0.99, max_episode_steps: int = 1000, *, threads: int | None = None) -> Host:
    """Terminates when the torso is too low, too high or tilted too far."""
    return _host(WALKER2D, gamma, max_episode_steps, threads)


@checked
def hopper(gamma: float = 0.99, max_episode_steps: int = 1000, *, threads: int | None = None) -> Host:
    """Terminates when the torso is too low or tilted too far."""
    return _host(HOPPER, gamma, max_episode_steps, threads)


@checked_only
def hopper_legs(level: str, clients: int = 60) -> MujocoParams:
    """A stack of Hoppers with leg radii evenly spaced from .01 to .07, .10 or .15: `xie2025` §5.1."""
    if level not in THICKEST_LEG or clients < 1:
        raise ValueError(f"expected a level of {', '.join(THICKEST_LEG)} and clients >= 1, got {level!r} and {clients}")
    return params(HOPPER, leg_radius=np.linspace(THINNEST_LEG, THICKEST_LEG[level], clients))


@checked_only
def perturbed_starts(
    task: Task, nominal: float | None = None, spread: float | None = None
) -> Callable[[keys.Key, int | Array], MujocoParams]:
    """Initial noise drawn uniformly from nominal ± spread, as in the published code of `wang2024`.

    By default `nominal` is Gymnasium's and `spread` a tenth of it, as there.
    """
    middle = task.noise if nominal is None else nominal
    width = middle / 10 if spread is None else spread
    if not 0.0 <= width <= middle:
        raise ValueError(f"noise must not be negative: expected 0 <= spread <= nominal={middle}, got {width}")

    def draw(key: keys.Key, client_id: int | Array) -> MujocoParams:
        own = keys.of(key, "start", client_id)
        return params(task, noise=jax.random.uniform(own, minval=middle - width, maxval=middle + width))

    return draw


def _host(task: Task, gamma: float, max_episode_steps: int, threads: int | None) -> Host:
    if not 0.0 < gamma <= 1.0 or max_episode_steps < 1:
        raise ValueError(
            f"{task.name} needs 0 < gamma <= 1 and max_episode_steps >= 1, got {gamma} and {max_episode_steps}; "
            "try 0.99 and 1000"
        )
    if threads is not None and threads < 1:
        raise ValueError(f"{task.name} needs threads >= 1, or None for its share of the processors, got {threads}")

    def open_copies(client_id: int, env_params: MujocoParams, num_envs: int) -> MujocoSimulator:
        # an engine sets each worker process's share when it starts it
        workers = threads or int(os.environ.get("FEDRL_THREADS") or os.cpu_count() or 1)
        return MujocoSimulator(
            task, client_id, env_params, num_envs, max_episode_steps=max_episode_steps, threads=min(workers, num_envs)
        )

    model = compile_model(task, validate(task, 0, params(task)))
    size = model.nq - 1 + model.nv
    low, high = (tuple(map(float, bound)) for bound in model.actuator_ctrlrange.T)
    return Host(
        open=open_copies,
        observations=Box((size,), (-np.inf,) * size, (np.inf,) * size),
        actions=Box((model.nu,), low, high),
        gamma=gamma,
        max_episode_steps=max_episode_steps,
    )


class MujocoSimulator:
    """The `Simulator` of one client. As in Gymnasium, MuJoCo clamps actions to [-1, 1], but their cost is not clamped."""

    def __init__(
        self,
        task: Task,
        client_id: int,
        env_params: MujocoParams,
        num_envs: int,
        *,
        max_episode_steps: int,
        threads: int,
    ) -> None:
        own = validate(task, client_id, env_params)
        self.task, self.client_id, self.noise, self.max_episode_steps = (
            task,
            client_id,
            float(own.noise),
            max_episode_steps,
        )
        self.batch = Batch(compile_model(task, own), num_envs, threads)
        self.qpos, self.qvel, self.ctrl = (self.batch.bind(name) for name in ("qpos", "qvel", "ctrl"))
        self.warned = self.batch.warning[..., 1]  # [B, kind] how often
        self.at_rest = self.batch.state[0].copy()
        self.seconds = self.batch.model.opt.timestep * task.frame_skip
        self.elapsed = np.zeros(num_envs, int)

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Observations [rows, d] in float32."""
        self.batch.state[rows] = self.at_rest
        self.batch.warning[rows] = 0
        self.elapsed[rows] = 0
        for row, seed in zip(rows, seeds, strict=True):
            random = np.random.Generator(np.random.Philox(int(seed)))
            self.qpos[row] += random.uniform(-self.noise, self.noise, self.qpos.shape[1])
            self.qvel[row] += self.task.velocity_noise(random, self.noise, self.qvel.shape[1])
        return self._observe(self.qpos[rows], self.qvel[rows])

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        """Observations [B, d] in float32, rewards in float64. As in Gymnasium a step may both terminate and truncate."""
        copies = np.arange(len(self.ctrl)) if rows is None else rows
        expected = (len(copies), self.ctrl.shape[1])
        if actions.shape != expected:
            raise ValueError(
                f"client {self.client_id}: actions of shape {actions.shape}, expected {expected}; pass one row per copy"
            )
        task, position = self.task, self.qpos[copies, 0]
        self.ctrl[copies] = actions
        self._advance(rows)
        self.elapsed[copies] += 1
        qpos, qvel = self.qpos[copies], self.qvel[copies]
        speed = (qpos[:, 0] - position) / self.seconds
        healthy = task.healthy(qpos, qvel)
        reward = speed + task.healthy_reward * healthy - task.control_cost * np.square(actions).sum(axis=1)
        observations = self._observe(qpos, qvel)
        check_finite_rows(self.client_id, rows, observations, reward)
        return observations, reward, ~healthy, self.elapsed[copies] >= self.max_episode_steps

    def close(self) -> None:
        vars(self).clear()

    def _advance(self, rows: np.ndarray | None) -> None:
        try:
            self.batch.step(rows, nstep=self.task.frame_skip)
        except SimulationError as error:
            raise EnvironmentFailed(f"client {self.client_id}: MuJoCo cannot step {self.task.name}: {error}") from error
        if self.warned.any():
            copy, kind = np.argwhere(self.warned)[0]
            warning = mujoco.mju_warningText(int(kind), int(self.batch.warning[copy, kind, 0]))
            raise EnvironmentFailed(
                f"client {self.client_id}, copy {copy} of {self.task.name}: {warning.rstrip('. ')}; "
                "make its parameters less extreme, keep its actions finite, or exclude this client"
            )

    def _observe(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """Everything except the distance covered, which the task does not observe."""
        most = self.task.speed_shown
        shown = qvel if most is None else np.clip(qvel, -most, most)
        return np.concatenate((qpos[:, 1:], shown), axis=1, dtype=np.float32, casting="same_kind")
