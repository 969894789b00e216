"""Combine running statistics: counts, means and squares of all clients that answered, summed exactly (Chan et al. 1979)."""

from collections.abc import Callable

import jax.numpy as jnp

from fedrl import trees
from fedrl.policies.filtered import Moments
from fedrl.trees import Tree
from fedrl.types import Cohort


def pool(uploads: Moments, cohort: Cohort, rule: Callable[[Tree, Cohort], Tree]) -> Moments:
    """The moments of all observations of the clients present, from the stack of their moments.

    `rule` is the one that combines displacements. Here it gives every client the same weight, and its result is
    multiplied by the number of clients, so with the mean each observation counts once; a robust rule stays robust. The
    squares are taken around the common mean, never around zero, so large offsets cost no digits.
    """
    count = jnp.sum(cohort.present).astype(uploads.total.dtype)
    equal_weights = cohort._replace(weight=jnp.where(cohort.present, 1.0 / jnp.maximum(count, 1.0), 0.0))

    def total(stack: Tree) -> Tree:
        return trees.scale(count, rule(stack, equal_weights))

    of_client = jnp.broadcast_to(uploads.total[:, None], uploads.mean.shape)
    number, total_sum = total((uploads.total, of_client * uploads.mean))
    number = jnp.round(number)  # 3 * (1 / 3) need not be exactly 1
    mean = total_sum / jnp.maximum(number, 1.0)
    deviation = uploads.mean - jnp.broadcast_to(mean[None, :], uploads.mean.shape)
    return Moments(number, mean, total(uploads.squares + of_client * deviation**2))
