"""Gymnasium's CartPole-v1 as pure functions of its parameters, so that clients with different carts and poles are a stack.

Same equations in the same order (Euler, 0.02 s). Gymnasium keeps its state in float64 and shows it in float32; here
everything has the parameters' precision. With 64 bits enabled a step agrees to 1e-12, in float32 to 1e-6. Because the
pole is unstable, differences grow: under the same actions, states differ from Gymnasium's by 1e-2 after some 200 steps in
float32 and after some 450 in float64.
"""

import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.arguments import checked, checked_only
from fedrl.environments.protocol import Box, Discrete, Environment, Step

SECONDS = 0.02  # between two states
MAX_POSITION = 2.4
MAX_ANGLE = 12 * 2 * math.pi / 360


class CartPole(NamedTuple):
    """Parameters of one environment, or with a leading axis on every field those of many."""

    gravity: Array
    cart_mass: Array
    pole_mass: Array
    half_length: Array  # of the pole
    force: Array  # of a push, to either side
    start: Array  # half-width of the uniform range all four numbers start in
    horizon: Array  # int32: steps after which an episode is truncated


class State(NamedTuple):
    physics: Array  # [4] position, velocity, angle, angular velocity
    steps: Array  # int32: taken so far


@checked
def environment(gamma: float = 0.99, max_episode_steps: int = 500) -> Environment:
    """The reward is 1 per step, including the last. An episode is truncated after `horizon` steps of its parameters, and at
    `max_episode_steps` in any case.

    As in Gymnasium a step may be both `terminated` and `truncated`, if the pole falls in the very last one. Only `reset`
    uses its noise.
    """
    if not 0.0 < gamma <= 1.0 or max_episode_steps < 1:
        raise ValueError(
            f"cart-pole needs 0 < gamma <= 1 and max_episode_steps >= 1, got {gamma} and {max_episode_steps}; "
            "try 0.99 and 500"
        )

    def reset(env_params: CartPole, noise: Array) -> State:
        return State(env_params.start * (2.0 * noise - 1.0), jnp.int32(0))

    def step(env_params: CartPole, state: State, action: Array, noise: Array) -> Step:
        physics, steps = _euler(env_params, state.physics, action), state.steps + 1
        terminated = (jnp.abs(physics[0]) > MAX_POSITION) | (jnp.abs(physics[2]) > MAX_ANGLE)
        return Step(
            State(physics, steps),
            jnp.ones_like(physics[0]),
            terminated,
            steps >= jnp.minimum(env_params.horizon, max_episode_steps),
        )

    high = (2 * MAX_POSITION, math.inf, 2 * MAX_ANGLE, math.inf)
    return Environment(
        prepare=lambda env_params: env_params,
        reset=reset,
        step=step,
        observe=lambda env_params, state: state.physics,
        noise=lambda key, shape: jax.random.uniform(key, (*shape, 4)),
        observations=Box((4,), tuple(-bound for bound in high), high),
        actions=Discrete(2),
        gamma=gamma,
        max_episode_steps=max_episode_steps,
    )


def _euler(env_params: CartPole, physics: Array, action: Array) -> Array:
    """The four numbers one step later: all derivatives are taken before the step."""
    _, velocity, angle, spin = physics
    force = jnp.where(action == 1, env_params.force, -env_params.force)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    mass, moment = env_params.pole_mass + env_params.cart_mass, env_params.pole_mass * env_params.half_length
    push = (force + moment * jnp.square(spin) * sin) / mass
    turn = (env_params.gravity * sin - cos * push) / (
        env_params.half_length * (4.0 / 3.0 - env_params.pole_mass * jnp.square(cos) / mass)
    )
    acceleration = push - moment * turn * cos / mass
    return physics + SECONDS * jnp.stack([velocity, acceleration, spin, turn])


@checked_only
def params(
    gravity: float | Array = 9.8,
    cart_mass: float | Array = 1.0,
    pole_mass: float | Array = 0.1,
    half_length: float | Array = 0.5,
    force: float | Array = 10.0,
    start: float | Array = 0.05,
    horizon: int | Array = 500,
) -> CartPole:
    """Gymnasium's parameters except for the arguments; arrays with a client axis make the result a stack."""
    numbers = [jnp.asarray(x, float) for x in (gravity, cart_mass, pole_mass, half_length, force, start)]
    return CartPole(*jnp.broadcast_arrays(*numbers, jnp.asarray(horizon, jnp.int32)))


_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(params).parameters.items()}


@checked_only
def evenly(clients: int, field: str, low: float, high: float) -> CartPole:
    """A stack of parameters that differ in one field, evenly spaced from `low` to `high`, both included."""
    if field not in CartPole._fields:
        raise ValueError(f"a cart-pole has no parameter {field!r}; choose one of {', '.join(CartPole._fields)}")
    if clients < 1:
        raise ValueError(f"a federation needs at least one client, got clients={clients}; try 8")
    least = {"gravity": -math.inf, "start": 0.0}.get(field, 1e-6)
    if not all(math.isfinite(x) and x >= least for x in (low, high)):
        kind = {"gravity": "finite", "start": "finite and not negative"}.get(field, "finite and positive")
        raise ValueError(
            f"{field} of a cart-pole must be {kind}, got {low} to {high}; CartPole-v1 has {_DEFAULTS[field]}"
        )
    values = np.linspace(low, high, clients)
    return params(**{field: jnp.asarray(np.rint(values) if field == "horizon" else values, float)})


@checked_only
def start_ranges(clients: int, low: float, high: float) -> CartPole:
    """Client i starts within ± its own half-width, evenly spaced from `low` to `high`."""
    return evenly(clients, "start", low, high)


@checked_only
def perturbed_starts(nominal: float = 0.05, spread: float = 0.005) -> Callable[[keys.Key, int | Array], CartPole]:
    """Half-widths drawn uniformly from nominal ± spread, as in the published code of `wang2024`."""
    if not 0.0 <= spread <= nominal:
        raise ValueError(f"a half-width must not be negative: expected 0 <= spread <= nominal={nominal}, got {spread}")

    def draw(key: keys.Key, client_id: int | Array) -> CartPole:
        own = keys.of(key, "start", client_id)
        return params(start=jax.random.uniform(own, minval=nominal - spread, maxval=nominal + spread))

    return draw
