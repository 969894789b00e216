"""Safeguards of the directions of wang2024: truncated weights, clipped directions, a baseline, decay. None is the paper's.

Each is off where its setting is None, and then changes no bit.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from fedrl import trees
from fedrl.arguments import above, checked
from fedrl.learners.optimizers import Schedule
from fedrl.trees import Tree

Baseline = Callable[[Array], Array]  # reward to go [B, T, k] -> what to subtract from it, found in other episodes


def check_safeguards(weight_limit: float | None, clip: float | None, baseline: Baseline | None, batch: int) -> None:
    if weight_limit is not None:
        above(0, "1 never lets the old gradient count for more than the new one", weight_limit=weight_limit)
    if clip is not None:
        above(0, "the longest direction that is not shortened; None does not clip", clip=clip)
    if baseline is not None and batch < 2:
        raise ValueError(f"a baseline needs other episodes of the same step, got batch={batch}; use batch=2 or more")


def truncated(weight: Array, limit: float | None) -> Array:
    """min(w, c), truncated importance sampling (Ionides 2008): a bounded weight, for the price of a bias where w > c."""
    return weight if limit is None else jnp.minimum(weight, jnp.asarray(limit, weight.dtype))


def shortened(direction: Tree, norm: float | None) -> Tree:
    """`direction`, shortened to Euclidean norm `norm` if it is longer."""
    if norm is None:
        return direction
    length = jnp.sqrt(trees.squared_norm(direction))
    longest = jnp.asarray(norm, length.dtype)
    return trees.scale(jnp.where(length <= longest, jnp.ones_like(length), longest / length), direction)


def centred(to_go: Array, baseline: Baseline | None) -> Array:
    return to_go if baseline is None else to_go - baseline(to_go)


def leave_one_out(to_go: Array) -> Array:
    """The mean reward to go of the other episodes at the same time: unbiased, as it does not depend on one's own choices."""
    return (jnp.sum(to_go, axis=0, keepdims=True) - to_go) / jnp.asarray(to_go.shape[0] - 1, to_go.dtype)


@checked
def storm(after: float) -> Schedule:
    """eta_r / eta_0 = (1 + r / after)^(-1/3), with which beta falls as its square (Cutkosky & Orabona 2019, Algorithm 1).

    Unlike there, where eta_t is k / (w + sum of G^2)^(1/3) with the norms G of all gradients so far, the norms count as
    equal: `after` is w / G^2, the number of rounds after which eta has fallen by a fifth.
    """
    above(0, after=after)
    return lambda round: (1.0 + round.astype(jnp.float32) / after) ** (-1.0 / 3.0)


def step_factor(decay: Schedule | None, round: Array) -> Array | float:
    """eta_r / eta_0."""
    return 1.0 if decay is None else decay(round)


def momentum(beta: float, decay: Schedule | None, round: Array) -> Array | float:
    """beta_r = beta (eta_r / eta_0)^2."""
    return beta if decay is None else beta * jnp.square(decay(round))


def stepped(direction: Tree, clip: float | None, decay: Schedule | None, round: Array) -> Tree:
    """The direction of a local step of constant size eta: clipped, then times eta_r / eta_0."""
    safe = shortened(direction, clip)
    return safe if decay is None else trees.scale(step_factor(decay, round), safe)
