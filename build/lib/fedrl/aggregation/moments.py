"""Combine running statistics: counts, means and squares of all who answered, summed exactly (Chan et al. 1979)."""

from collections.abc import Callable

import jax.numpy as jnp

from fedrl import trees
from fedrl.policies.filtered import Moments
from fedrl.trees import Tree
from fedrl.types import Cohort


def pool(uploads: Moments, cohort: Cohort, rule: Callable[[Tree, Cohort], Tree]) -> Moments:
    """The moments of everything those present have seen, from the stack of their own.

    `rule` is the one that combines displacements. Here it sees every client with the same weight and its result counts
    once per client, so with the mean each observation counts once; a robust rule stays robust. The squares are taken
    around the common mean, never around zero, so large offsets cost no digits.
    """
    count = jnp.sum(cohort.present).astype(uploads.total.dtype)
    alike = cohort._replace(weight=jnp.where(cohort.present, 1.0 / jnp.maximum(count, 1.0), 0.0))

    def total(stack: Tree) -> Tree:
        return trees.scale(count, rule(stack, alike))

    of_client = jnp.broadcast_to(uploads.total[:, None], uploads.mean.shape)
    number, sums = total((uploads.total, of_client * uploads.mean))
    number = jnp.round(number)  # a third of three is not quite one
    mean = sums / jnp.maximum(number, 1.0)
    off = uploads.mean - jnp.broadcast_to(mean[None, :], uploads.mean.shape)
    return Moments(number, mean, total(uploads.squares + of_client * off**2))
