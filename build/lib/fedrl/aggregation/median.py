"""Combine by the median of every coordinate, which a minority of clients cannot move at will (Yin et al. 2018)."""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.trees import Tree
from fedrl.types import Cohort


def median(uploads: Tree, cohort: Cohort) -> Tree:
    """Over those present, each counting alike whatever its weight; the mean of the middle two where they are even in number.

    Zero if nobody answered. Of one or two clients it is their mean.
    """
    count = jnp.sum(cohort.present)
    low, high = jnp.maximum(count - 1, 0) // 2, count // 2

    def one(x: Array) -> Array:
        last = jnp.asarray(jnp.inf, x.dtype)  # where those who are absent are sorted to
        ranked = jnp.sort(jnp.where(cohort.present.reshape((-1,) + (1,) * (x.ndim - 1)), x, last), axis=0)
        middle = (ranked[low] + ranked[jnp.minimum(high, x.shape[0] - 1)]) / 2
        return jnp.where(count > 0, middle, jnp.zeros_like(middle))

    return jax.tree.map(one, uploads)
