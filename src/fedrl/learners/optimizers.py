"""Step sizes and optimisers of network learners: optax transformations of unit step, scaled by `learning_rate`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from fedrl.arguments import above, at_least, below, checked

Schedule = Callable[[Array], Array]  # (round) -> step size, or another coefficient


@checked
def sgd(momentum: float = 0.9, *, clip: float | None = None) -> optax.GradientTransformation:
    """Momentum SGD; `clip` bounds the global norm of the gradient first (10 in xie2025's published code)."""
    at_least(0, "0.9 is usual", momentum=momentum)
    below(1, "0.9 is usual", momentum=momentum)
    return _clipped(optax.trace(decay=momentum) if momentum else optax.identity(), clip)


@checked
def adam(*, clip: float | None = None) -> optax.GradientTransformation:
    return _clipped(optax.scale_by_adam(eps=1e-5), clip)


def _clipped(optimizer: optax.GradientTransformation, clip: float | None) -> optax.GradientTransformation:
    if clip is not None:
        above(0, "None does not clip", clip=clip)
    chain = optimizer if clip is None else optax.chain(optax.clip_by_global_norm(clip), optimizer)

    def update(gradient: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        # optax multiplies counts with floats, which JAX's strict promotion rejects
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            updates: tuple[Any, Any] = chain.update(gradient, state, params)
            return updates

    return optax.GradientTransformation(chain.init, update)


@checked
def decaying(learning_rate: float, *, decay: float = 1.0, floor: float = 0.0) -> Schedule:
    """learning_rate * decay^round, never below `floor`."""
    if not (learning_rate >= 0 and 0 < decay <= 1):
        raise ValueError(f"a rate must not be negative and its decay lie in (0, 1], got {learning_rate} and {decay}")
    at_least(0, floor=floor)
    return lambda round: jnp.maximum(learning_rate * jnp.asarray(decay) ** round.astype(jnp.float32), floor)


@checked
def constant(learning_rate: float) -> Schedule:
    return decaying(learning_rate)


@checked
def dropping(start: float, *, every: int, factor: float = 10.0) -> Schedule:
    """`start`, divided by `factor` after every `every` rounds: the entropy coefficient of xie2025's published code."""
    at_least(0, start=start)
    at_least(1, every=every)
    above(0, factor=factor)
    return lambda round: start * jnp.asarray(1.0 / factor) ** (round // every).astype(jnp.float32)


def as_schedule(name: str, learning_rate: Schedule | float) -> Schedule:
    """`learning_rate` if it is a schedule, else the constant schedule; `name` is the argument's, for errors."""
    if callable(learning_rate):
        if not hasattr(learning_rate, "builds"):  # the schedules of this module are checked when built
            _check_schedule(name, learning_rate)
        return learning_rate
    at_least(0, "0 switches it off", **{name: learning_rate})
    return constant(learning_rate)


def _check_schedule(name: str, learning_rate: Schedule) -> None:
    """Refuse a user's function that does not return a usable number for round 0."""
    first = np.asarray(learning_rate(jnp.int32(0)))
    if first.shape != () or first.dtype.kind not in "fiu":
        raise TypeError(
            f"{name}(round) must return one number, got an array of shape {first.shape} and type {first.dtype}; "
            "write lambda round: 0.001, or decaying(0.001, decay=0.99)"
        )
    at_least(0, "this is what the schedule gives for round 0", **{name: float(first)})
