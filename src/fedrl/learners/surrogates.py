"""How far a policy may move on one batch: PPO's clipped ratio and its adaptive KL penalty."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl.arguments import checked


class Trust(NamedTuple):
    """`beta` is the penalty coefficient a client keeps between its iterations."""

    objective: Callable[[Array, Array, Array, Array], Array]  # (ratio, advantage, kl, beta) -> [...], to be maximised
    adapt: Callable[[Array, Array, Array], Array]  # (beta, kl, largest advantage) -> beta for the next iteration
    low: float = 0.0  # ratios below this,
    high: float = math.inf  # or above this, are clipped; what `clip_share` counts


@checked
def clipped(reach: float = 0.2) -> Trust:
    """min(rho A, clip(rho, 1 - reach, 1 + reach) A): Schulman et al. 2017, Eq. (7)."""
    if not 0 < reach < math.inf:
        raise ValueError(f"reach must be positive and finite, got {reach}; 0.2 is usual")

    def objective(ratio: Array, advantage: Array, kl: Array, beta: Array) -> Array:
        return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - reach, 1.0 + reach) * advantage)

    return Trust(objective, lambda beta, kl, largest: beta, 1.0 - reach, 1.0 + reach)


@checked
def adaptive_kl(target: float = 3e-3) -> Trust:
    """rho A - beta KL(old, new) with beta moved towards `target`: Schulman et al. 2017, Eq. (8), as xie2025 uses it.

    The constants are those of xie2025's published code: beta is halved below target / 1.1, doubled above 1.1 target, then
    capped at min(20, |largest advantage / KL|) and kept above 1e-8; the ratio is clipped to [1e-8, 10].
    """
    if not 0 < target < math.inf:
        raise ValueError(f"the KL target must be positive and finite, got {target}; xie2025 uses 3e-3")

    def objective(ratio: Array, advantage: Array, kl: Array, beta: Array) -> Array:
        return jnp.clip(ratio, 1e-8, 10.0) * advantage - beta * kl

    def adapt(beta: Array, kl: Array, largest: Array) -> Array:
        beta = jnp.where(kl < target / 1.1, 0.5 * beta, jnp.where(kl > 1.1 * target, 2.0 * beta, beta))
        cap = jnp.minimum(20.0, jnp.abs(largest) / jnp.maximum(kl, 1e-12))
        return jnp.maximum(jnp.minimum(beta, cap), 1e-8)

    return Trust(objective, adapt, 1e-8, 10.0)
