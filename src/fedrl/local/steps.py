"""Step sizes and optimisers of network learners. Optimisers are optax transformations of unit rate; a rate scales them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from fedrl.arguments import above, at_least, checked

Rate = Callable[[Array], Array]  # (round) -> step size, or another coefficient


@checked
def sgd(momentum: float = 0.9, *, clip: float | None = None) -> optax.GradientTransformation:
    """Momentum SGD; `clip` bounds the global norm of the gradient first (10 in 004's published code)."""
    return _clipped(optax.trace(decay=momentum) if momentum else optax.identity(), clip)


@checked
def adam(*, clip: float | None = None) -> optax.GradientTransformation:
    return _clipped(optax.scale_by_adam(eps=1e-5), clip)


def _clipped(optimiser: optax.GradientTransformation, clip: float | None) -> optax.GradientTransformation:
    if clip is not None:
        above(0, "None does not clip", clip=clip)
    chain = optimiser if clip is None else optax.chain(optax.clip_by_global_norm(clip), optimiser)

    def update(gradient: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        # optax multiplies counts with floats, which JAX's strict mode would not have
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return chain.update(gradient, state, params)

    return optax.GradientTransformation(chain.init, update)


@checked
def decaying(rate: float, *, decay: float = 1.0, floor: float = 0.0) -> Rate:
    """rate * decay^round, never below `floor`."""
    if not (rate >= 0 and 0 < decay <= 1):
        raise ValueError(f"a rate must not be negative and its decay lie in (0, 1], got {rate} and {decay}")
    at_least(0, floor=floor)
    return lambda round: jnp.maximum(rate * jnp.asarray(decay) ** round.astype(jnp.float32), floor)


@checked
def constant(rate: float) -> Rate:
    return decaying(rate)


@checked
def dropping(start: float, *, every: int, factor: float = 10.0) -> Rate:
    """`start`, divided by `factor` every so many rounds: the entropy coefficient of 004's published code."""
    at_least(0, start=start)
    at_least(1, every=every)
    above(0, factor=factor)
    return lambda round: start * jnp.asarray(1.0 / factor) ** (round // every).astype(jnp.float32)


def as_rate(name: str, rate: Rate | float) -> Rate:
    """`rate` itself, or the schedule that always gives this number; `name` is the argument's."""
    if callable(rate):
        return rate
    at_least(0, "0 switches it off", **{name: rate})
    return constant(rate)
