"""Generalised advantage estimation (Schulman et al. 2016) on batches of episodes that end, are cut, or begin anew."""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.rollouts.episodes import Trajectory


def gae(seen: Trajectory, reward: Array, value: Array, value_after: Array, *, gamma: float, lam: float) -> Array:
    """Advantages [B, T]: sum over l of (gamma lam)^l delta_{t+l} within the episode.

    delta_t = r_t + gamma V(after) - V(obs); V(after) counts as zero where the task was over. `value` and `value_after`
    are V at `seen.obs` and `seen.after`. An episode that was cut is worth what V says it still is; give a `value_after`
    of zero there for the convention of 004's published code.
    """
    going_on = jnp.where(seen.done, 0.0, 1.0)
    linked = jnp.where(seen.done | seen.cut, 0.0, 1.0)
    delta = reward + gamma * going_on * value_after - value

    def backwards(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, linked = now
        advantage = delta + gamma * lam * linked * later
        return advantage, advantage

    first = jnp.zeros_like(delta[:, 0])
    _, advantage = jax.lax.scan(backwards, first, (delta.T, linked.T), reverse=True)
    return advantage.T


def standardised(x: Array) -> Array:
    """Mean zero, deviation one over everything in x."""
    return (x - jnp.mean(x)) / (jnp.std(x) + 1e-8)
