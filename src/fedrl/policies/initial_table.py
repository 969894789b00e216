"""theta_0 of a table, as a user defines it: `start(key, shape)`, checked before anything compiles."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.keys import Key

Start = Callable[[Key, tuple[int, ...]], Array]
INSTEAD = "write start=lambda key, shape: jnp.zeros(shape), or leave it out"


def initial_table(
    start: Start | None, shape: tuple[int, ...], default: Callable[[], Array], *, distributions: bool = False
) -> Callable[[Key], Array]:
    """The function (key) -> theta_0 [*shape]: what `start` returns, or the `default` without one.

    Lists and whole numbers become float32. With `distributions`, rows must be probabilities. Values are checked only where
    they are known before compilation.
    """
    if start is None:
        return lambda key: default()

    def init(key: Key) -> Array:
        value = start(key, shape)
        theta = _as_floats(value)
        if theta.shape != shape:
            raise ValueError(f"start(key, shape) must return an array of shape {shape}, got {theta.shape}; {INSTEAD}")
        if not isinstance(value, jax.core.Tracer):
            _check(np.asarray(value, np.float64), distributions)
        return theta

    jax.eval_shape(lambda: init(keys.of_seed(0)))
    return init


def _as_floats(value: Any) -> Array:
    try:
        theta = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"start(key, shape) must return an array of numbers, got {value!r:.60}; {INSTEAD}") from error
    if not (jnp.issubdtype(theta.dtype, jnp.floating) or jnp.issubdtype(theta.dtype, jnp.integer)):
        raise TypeError(f"start(key, shape) must return real numbers, got an array of {theta.dtype}; {INSTEAD}")
    return theta if jnp.issubdtype(theta.dtype, jnp.floating) else theta.astype(jnp.float32)


def _check(theta: np.ndarray, distributions: bool) -> None:
    if not np.isfinite(theta).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(theta))[0])
        raise ValueError(f"start(key, shape) must return finite numbers, got {theta[place]} at {place}; fix or clip it")
    bad = [row for row in theta if row.min() < 0 or abs(row.sum() - 1) > 1e-4] if distributions else []
    if bad:
        raise ValueError(
            f"the rows of start(key, shape) must be distributions, got one that sums to {bad[0].sum():.6g} with "
            f"smallest entry {bad[0].min():.6g}; divide each row by its sum"
        )
