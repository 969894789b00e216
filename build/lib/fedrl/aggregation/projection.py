"""Projections the server may apply to the averaged parameters: proj_T in Algorithm 1 of Labbi et al. 2025."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedrl.arguments import checked
from fedrl.trees import Tree


@checked
def linf_ball(radius: float) -> Callable[[Tree], Tree]:
    """Projection onto {theta: max |theta_i| <= radius}; an infinite radius leaves every bit as it was."""
    if not radius > 0:
        raise ValueError(f"the radius of the ball must be positive, got {radius}")

    def project(theta: Tree) -> Tree:
        return jax.tree.map(lambda x: jnp.clip(x, -radius, radius), theta)

    return project
