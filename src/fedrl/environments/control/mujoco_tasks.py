"""HalfCheetah, Walker2d and Hopper as Gymnasium v5 defines them, and the compiled MuJoCo model of a client.

Parameters have the compiled program's precision, in which 0.04 is 0.03999999910593033. A number is therefore read as the
shortest decimal that denotes it, so that a default leaves Gymnasium's model unchanged to the bit.
"""

import warnings
from collections.abc import Callable
from importlib.resources import files
from typing import NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from fedrl.environments.errors import EnvironmentFailed

Number = Array | np.ndarray | float
LEG_RADIUS = 0.04  # Hopper's, in Gymnasium's model


class MujocoParams(NamedTuple):
    """Parameters of one environment, or with a leading axis on every field those of many."""

    noise: Number  # scale of the noise in the initial positions and velocities
    mass: Number  # factor on the masses and inertias of all bodies
    gravity: Number  # factor on gravity
    friction: Number  # factor on the friction of all geoms, the floor included
    leg_radius: Number  # Hopper's; mass and inertia of the leg follow from it. Keep it at 0.04 elsewhere


class Task(NamedTuple):
    name: str
    xml: str
    frame_skip: int
    control_cost: float
    healthy_reward: float
    healthy: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (qpos, qvel) -> [B]; False ends the episode
    speed_shown: float | None  # velocities are clipped to ± this in observations
    velocity_noise: Callable[[np.random.Generator, float, int], np.ndarray]  # (generator, scale, size) -> velocities
    noise: float
    leg: str | None = None  # the geom whose radius `leg_radius` sets


def _hopper_healthy(qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    inside = (np.abs(qpos[:, 2:]) < 100.0).all(axis=1) & (np.abs(qvel) < 100.0).all(axis=1)
    healthy: np.ndarray = inside & (qpos[:, 1] > 0.7) & (np.abs(qpos[:, 2]) < 0.2)
    return healthy


def _walker_healthy(qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    healthy: np.ndarray = (qpos[:, 1] > 0.8) & (qpos[:, 1] < 2.0) & (np.abs(qpos[:, 2]) < 1.0)
    return healthy


def _always(qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    return np.ones(len(qpos), bool)


def _uniform(random: np.random.Generator, scale: float, size: int) -> np.ndarray:
    return random.uniform(-scale, scale, size)


def _normal(random: np.random.Generator, scale: float, size: int) -> np.ndarray:
    return scale * random.standard_normal(size)


HALF_CHEETAH = Task("half-cheetah", "half_cheetah.xml", 5, 0.1, 0.0, _always, None, _normal, 0.1)
WALKER2D = Task("walker2d", "walker2d_v5.xml", 4, 1e-3, 1.0, _walker_healthy, 10.0, _uniform, 5e-3)
HOPPER = Task("hopper", "hopper.xml", 4, 1e-3, 1.0, _hopper_healthy, 10.0, _uniform, 5e-3, leg="leg_geom")


def params(
    task: Task,
    *,
    noise: ArrayLike | None = None,
    mass: ArrayLike = 1.0,
    gravity: ArrayLike = 1.0,
    friction: ArrayLike = 1.0,
    leg_radius: ArrayLike = LEG_RADIUS,
) -> MujocoParams:
    """Gymnasium's parameters except for the arguments; arrays with a client axis make the result a stack."""
    values = (task.noise if noise is None else noise, mass, gravity, friction, leg_radius)
    return MujocoParams(*jnp.broadcast_arrays(*(jnp.asarray(x, float) for x in values)))


def validate(task: Task, client_id: int, env_params: MujocoParams) -> MujocoParams:
    """One client's parameters as Python floats; `EnvironmentFailed` if MuJoCo cannot use them."""
    params = MujocoParams(*(float(str(np.asarray(x)[()])) for x in env_params))
    problems = [
        f"{name}={value}"
        for name, value in zip(MujocoParams._fields, params, strict=True)
        if not np.isfinite(value) or value < 0.0 or (name in ("mass", "leg_radius") and value == 0.0)
    ]
    if problems:
        raise EnvironmentFailed(
            f"client {client_id}: {task.name} with {', '.join(problems)}; expected finite numbers, mass and leg_radius "
            "above 0, the others at least 0"
        )
    if task.leg is None and params.leg_radius != LEG_RADIUS:
        raise EnvironmentFailed(
            f"client {client_id}: leg_radius={params.leg_radius}, but {task.name} has no leg radius; keep it at {LEG_RADIUS}"
        )
    return params


def compile_model(task: Task, env_params: MujocoParams) -> mujoco.MjModel:
    """Gymnasium's model with validated parameters. The leg is changed before compiling, so its inertia follows."""
    with warnings.catch_warnings():  # Gymnasium's half_cheetah.xml has an attribute that MuJoCo 4 calls deprecated
        warnings.filterwarnings("ignore", message="compiler attribute 'settotalmass'")
        spec = mujoco.MjSpec.from_file(str(files("gymnasium") / "envs" / "mujoco" / "assets" / task.xml))
        if task.leg is not None:
            spec.geom(task.leg).size[0] = env_params.leg_radius
        model = spec.compile()
    model.body_mass *= env_params.mass
    model.body_inertia *= env_params.mass
    model.opt.gravity *= env_params.gravity
    model.geom_friction *= env_params.friction
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model
