"""Gymnasium's MountainCarContinuous-v0 as pure functions of its parameters; Mountain Cars (`xie2025` §5.1) shift the action.

Same equations in the same order. Gymnasium rounds its state to float32 after every step and takes the cosine in float64;
here everything has the parameters' precision. With 64 bits enabled a step rounds to exactly the state that Gymnasium
returns, and the rewards agree to 1e-12; in float32 a step agrees to 2e-7 in position, 1e-8 in velocity.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.arguments import checked, checked_only
from fedrl.environments.protocol import Box, Environment, Step

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07
SHIFTS = {  # the ends of the interval of theta_n, by convention and level
    "paper": {"low": (-1.0, 1.0), "medium": (-1.5, 1.5), "high": (-2.0, 2.0)},
    "published": {"low": (-1.0, 1.0), "medium": (-1.5, 1.5), "high": (-2.0, 3.0)},
}


class MountainCar(NamedTuple):
    """Parameters of one environment, or with a leading axis on every field those of many."""

    power: Array
    goal_position: Array
    goal_velocity: Array
    start_low: Array
    start_high: Array  # the start is uniform between start_low and start_high, at rest
    shift: Array  # theta_n, added to the action in all states
    horizon: Array  # int32: steps after which an episode is truncated


class State(NamedTuple):
    physics: Array  # [2] position, velocity
    steps: Array  # int32: taken so far


@checked
def environment(gamma: float = 0.99, max_episode_steps: int = 999, *, cost: str = "policy") -> Environment:
    """Each step costs 0.1 a^2, the goal pays 100. An episode is truncated after `horizon` steps of its parameters, and at
    `max_episode_steps` in any case.

    The engine gets the shifted action, clipped to [-1, 1]. As in Gymnasium the cost is never clipped: it is that of the
    policy's action, or with `cost="shifted"` that of the shifted one, as in the published code of `xie2025`. As in
    Gymnasium a step may be both `terminated` and `truncated`. Only `reset` uses its noise.
    """
    if not 0.0 < gamma <= 1.0 or max_episode_steps < 1:
        raise ValueError(
            f"mountain car needs 0 < gamma <= 1 and max_episode_steps >= 1, got {gamma} and {max_episode_steps}; "
            "try 0.99 and 999"
        )
    if cost not in ("policy", "shifted"):
        raise ValueError(f'cost must be "policy" or "shifted", the action that is paid for, got {cost!r}')

    def reset(env_params: MountainCar, noise: Array) -> State:
        position = env_params.start_low + (env_params.start_high - env_params.start_low) * noise
        return State(jnp.stack([position, jnp.zeros_like(position)]), jnp.int32(0))

    def step(env_params: MountainCar, state: State, action: Array, noise: Array) -> Step:
        shifted = action[0] + env_params.shift
        position, velocity = _drive(env_params, state.physics, jnp.clip(shifted, -1.0, 1.0))
        terminated = (position >= env_params.goal_position) & (velocity >= env_params.goal_velocity)
        charged = shifted if cost == "shifted" else action[0]
        reward = jnp.where(terminated, 100.0, 0.0).astype(position.dtype) - jnp.square(charged) * 0.1
        steps = state.steps + 1
        after = State(jnp.stack([position, velocity]), steps)
        return Step(after, reward, terminated, steps >= jnp.minimum(env_params.horizon, max_episode_steps))

    return Environment(
        prepare=lambda env_params: env_params,
        reset=reset,
        step=step,
        observe=lambda env_params, state: state.physics,
        noise=jax.random.uniform,
        observations=Box((2,), (MIN_POSITION, -MAX_SPEED), (MAX_POSITION, MAX_SPEED)),
        actions=Box((1,), (-1.0,), (1.0,)),
        gamma=gamma,
        max_episode_steps=max_episode_steps,
    )


def _drive(env_params: MountainCar, physics: Array, force: Array) -> tuple[Array, Array]:
    """Position and velocity one step later; the wall on the left stops the car."""
    position, velocity = physics
    velocity = velocity + (force * env_params.power - 0.0025 * jnp.cos(3 * position))
    velocity = jnp.clip(velocity, -MAX_SPEED, MAX_SPEED)
    position = jnp.clip(position + velocity, MIN_POSITION, MAX_POSITION)
    return position, jnp.where((position == MIN_POSITION) & (velocity < 0.0), 0.0, velocity)


@checked_only
def params(
    power: float | Array = 0.0015,
    goal_position: float | Array = 0.45,
    goal_velocity: float | Array = 0.0,
    start_low: float | Array = -0.6,
    start_high: float | Array = -0.4,
    shift: float | Array = 0.0,
    horizon: int | Array = 999,
) -> MountainCar:
    """Gymnasium's parameters except for the arguments; arrays with a client axis make the result a stack."""
    numbers = [jnp.asarray(x, float) for x in (power, goal_position, goal_velocity, start_low, start_high, shift)]
    return MountainCar(*jnp.broadcast_arrays(*numbers, jnp.asarray(horizon, jnp.int32)))


@checked_only
def shifts(
    level: str,
    clients: int = 60,
    convention: str = "paper",
) -> MountainCar:
    """Mountain Cars, `xie2025` §5.1: theta_n evenly spaced in an interval, by default n = 1..clients (medium: -1.5 + n/20).

    The published code counts from 0 and its high level goes from -2 towards 3 (with 60 clients up to 2.92).
    """
    if convention not in SHIFTS or level not in SHIFTS[convention]:
        raise ValueError(
            f"Mountain Cars of level {level!r}, convention {convention!r} are unknown; choose a level of "
            f"{', '.join(SHIFTS['paper'])} and a convention of {', '.join(SHIFTS)}"
        )
    if clients < 1:
        raise ValueError(f"a federation needs at least one client, got clients={clients}; the paper has 60")
    low, high = SHIFTS[convention][level]
    n = np.arange(clients) + (1 if convention == "paper" else 0)
    return params(shift=jnp.asarray(low + n * (high - low) / clients, float))
