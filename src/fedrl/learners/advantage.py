"""Generalised advantage estimation (Schulman et al. 2016) on episodes that terminate, are truncated, or restart."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.types import Trajectory

HANDFUL = 64


def gae(
    trajectory: Trajectory, reward: Array, value: Array, value_after: Array, *, gamma: float, gae_lambda: float
) -> Array:
    """Advantages [B, T]: sum over l of (gamma gae_lambda)^l delta_{t+l} within the episode.

    delta_t = r_t + gamma V(after) - V(obs); V(after) counts as zero where the task was over. `value` and `value_after`
    are V at `trajectory.obs` and `trajectory.after`. The rest of a truncated episode is valued by V; pass a `value_after`
    of zero there to follow xie2025's published code.
    """
    not_terminated = jnp.where(trajectory.terminated, 0.0, 1.0)
    same_episode = jnp.where(trajectory.terminated | trajectory.truncated, 0.0, 1.0)
    delta = reward + gamma * not_terminated * value_after - value

    def backwards(next_advantage: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, same_episode = step
        advantage = delta + gamma * gae_lambda * same_episode * next_advantage
        return advantage, advantage

    first = jnp.zeros_like(delta[:, 0])
    _, advantage = jax.lax.scan(backwards, first, (delta.T, same_episode.T), reverse=True)
    return advantage.T


def values_after(trajectory: Trajectory, value: Array, value_of: Callable[[Any], Array]) -> Array:
    """V at `trajectory.after` [B, T], given V at `trajectory.obs`: the next step's, or `value_of` if truncated.

    Truncations are rare, so these steps are gathered and evaluated in chunks of `HANDFUL`.
    """
    size, count = trajectory.truncated.size, jnp.sum(trajectory.truncated)
    truncated = trajectory.truncated.reshape(-1)
    rows = jnp.arange(size, dtype=jnp.int32)
    places = jnp.full((size + HANDFUL,), size, jnp.int32)
    places = places.at[jnp.where(truncated, jnp.cumsum(truncated) - 1, size + HANDFUL)].set(rows, mode="drop")
    after = jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), trajectory.after)

    def evaluate_chunk(i: Array, values: Array) -> Array:
        chunk = jax.lax.dynamic_slice(places, (i * HANDFUL,), (HANDFUL,))
        return values.at[chunk].set(value_of(jax.tree.map(lambda x: x[chunk], after)), mode="drop")

    next_values = jnp.concatenate([value[:, 1:], value[:, -1:]], axis=1).reshape(-1)
    values: Array = jax.lax.fori_loop(0, -(-count // HANDFUL), evaluate_chunk, next_values)
    return values.reshape(value.shape)


def standardised(x: Array) -> Array:
    """x shifted and scaled to mean zero and standard deviation one."""
    return (x - jnp.mean(x)) / (jnp.std(x) + 1e-8)
