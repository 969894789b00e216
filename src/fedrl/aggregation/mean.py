"""Combine by the weighted mean."""

import jax.numpy as jnp

from fedrl import trees
from fedrl.trees import Tree
from fedrl.types import Cohort


def mean(uploads: Tree, cohort: Cohort) -> Tree:
    """Sum of q'_i upload_i over the clients present, with q' renormalised to them; zero if nobody answered."""
    weight = jnp.where(cohort.present, cohort.weight, jnp.zeros_like(cohort.weight))
    total = jnp.sum(weight)
    return trees.weighted_sum(weight / jnp.where(total > 0, total, jnp.ones_like(total)), uploads)


def stack(uploads: Tree, cohort: Cohort) -> Tree:
    """Keep every upload, for evaluations and reports."""
    return uploads
