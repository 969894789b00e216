"""Combine by the median of every coordinate, which a minority of clients cannot move at will (Yin et al. 2018)."""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.trees import Tree
from fedrl.types import Cohort


def median(uploads: Tree, cohort: Cohort) -> Tree:
    """The median over the clients present, whatever their weights; the mean of the middle two if their number is even.

    It is zero if nobody answered, and the mean of one or two clients.
    """
    count = jnp.sum(cohort.present)
    low, high = jnp.maximum(count - 1, 0) // 2, count // 2

    def one(x: Array) -> Array:
        infinity = jnp.asarray(jnp.inf, x.dtype)  # absent clients are sorted to the end
        in_order = jnp.sort(jnp.where(cohort.present.reshape((-1,) + (1,) * (x.ndim - 1)), x, infinity), axis=0)
        middle = (in_order[low] + in_order[jnp.minimum(high, x.shape[0] - 1)]) / 2
        return jnp.where(count > 0, middle, jnp.zeros_like(middle))

    return jax.tree.map(one, uploads)
