"""Figure Eight (`xu2024`, Section VII) as arrays: fourteen vehicles on a road that crosses itself, some driven by agents.

The same environment as `sumo.figure_eight.FigureEight` with `speed_dev=0`, without SUMO: `figure_eight_rules` moves vehicles
as SUMO would. It covers vehicles driven by agents and humans, not those that SUMO drives on its own.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.environments.protocol import Box, Environment, Step
from fedrl.environments.traffic import figure_eight_rules as rules
from fedrl.environments.traffic.car_following import (
    ROUND,
    SECONDS,
    TOP_SPEED,
    VEHICLES,
    ahead,
    behind,
    gaps,
    place_of,
)
from fedrl.environments.traffic.figure_eight_rules import Traffic

EVERY_OTHER = tuple(range(1, VEHICLES, 2))
BRAKING_HUMAN, BRAKING_LEARNING = 1.5, 4.5  # m/s^2 that SUMO plans with


class FigureEight(NamedTuple):
    """Parameters of one environment, or with a leading axis on every field those of many. The humans are Flow's IDM."""

    acceleration: Array  # m/s^2 for an action of 1
    v_ref: Array  # m/s, the mean speed that earns 1
    noise: Array  # standard deviation of what is added to a human's acceleration, times sqrt(s)
    v_0: Array  # m/s, a human's desired speed
    time_gap: Array  # s it keeps, T of the IDM
    a: Array  # m/s^2, its acceleration
    b: Array  # m/s^2, its comfortable braking
    s_0: Array  # m it keeps at rest
    horizon: Array  # int32: steps after which an epoch is truncated


class State(NamedTuple):
    traffic: Traffic
    steps: Array  # int32: taken so far


def environment(
    gamma: float = 0.9, max_episode_steps: int = 1500, relative: bool = False, learning: Sequence[int] = EVERY_OTHER
) -> Environment:
    """Agents drive the vehicles `learning`, humans the others. NAS is everybody's reward: mean speed / v_ref, at most 1.

    An agent observes position / length of the loop and speed / 30 of its own vehicle, of the one ahead and of the one
    behind; with `relative`, gaps between bumpers / length instead of the others' positions. Its action is clipped to
    [-1, 1]. A collision terminates the epoch and earns 0; an epoch is truncated after `horizon` steps of its parameters, and
    at `max_episode_steps` in any case. `reset` does not use its noise.
    """
    if not 0.0 < gamma <= 1.0 or max_episode_steps < 1:
        raise ValueError(
            f"Figure Eight needs 0 < gamma <= 1 and max_episode_steps >= 1, got {gamma} and {max_episode_steps}; "
            "try 0.9 and 1500"
        )
    if not learning or list(learning) != sorted(set(learning) & set(range(VEHICLES))):
        raise ValueError(
            f"`learning` must list at least one vehicle from 0 to {VEHICLES - 1}, in ascending order, got {learning}; "
            f"the paper has {EVERY_OTHER}"
        )
    own = np.array(learning)
    humans = np.setdiff1d(np.arange(VEHICLES), own)
    whose = np.argsort(np.concatenate([own, humans]))

    def step(env_params: FigureEight, state: State, action: Array, noise: Array) -> Step:
        # agents' numbers are accelerations, humans' are noise
        numbers = jnp.concatenate([jnp.clip(action[:, 0], -1.0, 1.0) * env_params.acceleration, noise])[whose]
        traffic = move(env_params, state.traffic, numbers, state.steps, learning)
        steps = state.steps + 1
        crash = rules.collided(traffic.position)
        # a product, not a mean: XLA then keeps the speeds instead of computing them again wherever they are used
        mean = jnp.dot(traffic.speed, jnp.full_like(traffic.speed, 1.0 / VEHICLES), precision="highest")
        nas = jnp.where(crash, 0.0, jnp.minimum(mean / env_params.v_ref, 1.0))
        reward = jnp.broadcast_to(nas, own.shape)
        return Step(State(traffic, steps), reward, crash, steps >= jnp.minimum(env_params.horizon, max_episode_steps))

    def observe(env_params: FigureEight, state: State) -> Array:
        x, v = state.traffic.position / ROUND, state.traffic.speed / TOP_SPEED
        gap = gaps(state.traffic.position) / ROUND
        others = (gap, behind(gap)) if relative else (ahead(x), behind(x))
        return jnp.stack([x, v, others[0], ahead(v), others[1], behind(v)], axis=-1)[own]

    return Environment(
        prepare=lambda env_params: env_params,
        reset=lambda env_params, noise: State(start(env_params.v_ref.dtype), jnp.int32(0)),
        step=step,
        observe=observe,
        noise=lambda key, shape: jax.random.normal(key, (*shape, humans.size)),
        observations=Box((6,), (0.0, 0.0, -1.0, 0.0, -1.0, 0.0) if relative else (0.0,) * 6, (1.0,) * 6),
        actions=Box((1,), (-1.0,), (1.0,)),
        gamma=gamma,
        max_episode_steps=max_episode_steps,
        agents=own.size,
    )


def start(dtype: np.dtype) -> Traffic:
    """Evenly spaced, the first at the start of the first half, and at rest."""
    position, zeros = jnp.asarray(np.arange(VEHICLES) * (ROUND / VEHICLES), dtype), jnp.zeros(VEHICLES, dtype)
    return Traffic(position, zeros, jnp.full_like(zeros, rules.NOT_YET), zeros)


def move(env_params: FigureEight, traffic: Traffic, numbers: Array, steps: Array, learning: Sequence[int]) -> Traffic:
    """One step: `numbers` [14] are accelerations (m/s^2) of the vehicles `learning`, standard normal noise of the humans.

    Humans follow commands everywhere except on the crossing, where SUMO drives. `learning` may be empty here.
    """
    learns = np.isin(np.arange(VEHICLES), learning)
    v = traffic.speed
    human = _idm(env_params, v, ahead(v), gaps(traffic.position)) + math.sqrt(SECONDS) * env_params.noise * numbers
    commanded = jnp.maximum(v + SECONDS * jnp.where(learns, numbers, human), 0.0)
    command = jnp.where(~learns & (place_of(traffic.position).lane == 1), jnp.inf, commanded)
    braking = jnp.asarray(np.where(learns, BRAKING_LEARNING, BRAKING_HUMAN), v.dtype)
    return rules.drive(traffic, braking, command, steps.astype(v.dtype))


def _idm(env_params: FigureEight, v: Array, leader: Array, gap: Array) -> Array:
    """The acceleration of Flow's human: a (1 - (v/v_0)^4 - (s*/gap)^2)."""
    desired_gap = env_params.s_0 + jnp.maximum(
        v * env_params.time_gap + v * (v - leader) / (2.0 * jnp.sqrt(env_params.a * env_params.b)), 0.0
    )
    return env_params.a * (1.0 - (v / env_params.v_0) ** 4 - (desired_gap / jnp.maximum(gap, 1e-3)) ** 2)


def params(
    acceleration: float | Array = 1.0,
    v_ref: float | Array = 20.0,
    noise: float | Array = 0.2,
    v_0: float | Array = 30.0,
    time_gap: float | Array = 1.0,
    a: float | Array = 1.0,
    b: float | Array = 1.5,
    s_0: float | Array = 2.0,
    horizon: int | Array = 1500,
) -> FigureEight:
    """The paper's parameters except for the arguments; arrays with a leading axis make the result a stack."""
    numbers = [jnp.asarray(x, float) for x in (acceleration, v_ref, noise, v_0, time_gap, a, b, s_0)]
    return FigureEight(*jnp.broadcast_arrays(*numbers, jnp.asarray(horizon, jnp.int32)))
