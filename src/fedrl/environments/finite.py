"""Finite Markov decision processes as arrays: the tabular world of papers 000 and 003.

A world is an `MDP`; heterogeneous clients are a stack of them. Rewards, kernels and start distributions may all differ.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.environments.protocol import Discrete, Environment, Step


class MDP(NamedTuple):
    """One world, or with a leading axis on every field a stack of worlds."""

    kernel: Array  # [S, A, S] P(s' | s, a)
    reward: Array  # [S, A]    r(s, a)
    start: Array  # [S]       rho


class _Prepared(NamedTuple):
    kernel: Array  # [S, A, S] cumulative over s'
    reward: Array
    start: Array  # [S] cumulative


def environment(states: int, actions: int, gamma: float) -> Environment:
    """The environment whose worlds are `MDP`s with these sizes. It never terminates: discounting ends an episode."""
    if not 0.0 < gamma < 1.0:
        raise ValueError(f"gamma must lie strictly between 0 and 1, got {gamma}; a discounted task needs e.g. 0.9")

    def prepare(world: MDP) -> _Prepared:
        return _Prepared(jnp.cumsum(world.kernel, axis=-1), world.reward, jnp.cumsum(world.start))

    def reset(world: _Prepared, noise: Array) -> Array:
        return draw(world.start, noise)

    def step(world: _Prepared, state: Array, action: Array, noise: Array) -> Step:
        return Step(draw(world.kernel[state, action], noise), world.reward[state, action], jnp.zeros((), bool))

    return Environment(
        prepare=prepare,
        reset=reset,
        step=step,
        observe=lambda world, state: state,
        noise=jax.random.uniform,
        observations=Discrete(states),
        actions=Discrete(actions),
        gamma=gamma,
    )


def draw(cumulative: Array, u: Array) -> Array:
    """Inverse-CDF draw: how many of the inner cumulative probabilities lie at or below u (never past the last)."""
    return jnp.sum(u >= cumulative[:-1], dtype=jnp.int32)


def average(worlds: MDP, weight: Array | None = None) -> MDP:
    """The imaginary MDP of Jin et al. 2022 and Xie & Song 2025 §2.3: the q-weighted mean of every array."""
    if weight is None:
        return jax.tree.map(lambda x: jnp.mean(x, axis=0), worlds)
    return jax.tree.map(lambda x: jnp.tensordot(weight.astype(x.dtype), x, axes=1), worlds)


def check(worlds: MDP) -> MDP:
    """`worlds` (one MDP or a stack) as it came, or a `ValueError` that says which row is not a distribution."""
    kernel, reward, start = (np.asarray(x) for x in worlds)
    if reward.shape != kernel.shape[:-1] or start.shape != kernel.shape[:-3] + kernel.shape[-1:]:
        raise ValueError(
            f"an MDP wants kernel [.., S, A, S], reward [.., S, A], start [.., S]; got {kernel.shape}, {reward.shape}, "
            f"{start.shape}; give every array the same leading client axis"
        )
    for name, rows in (("kernel", kernel), ("start", start)):
        total = rows.sum(-1)
        bad = np.argwhere(~(np.abs(total - 1.0) < 1e-4) | (rows < 0).any(-1))
        if len(bad):
            row = tuple(int(i) for i in bad[0])
            raise ValueError(
                f"{name} row {row} is not a distribution: it sums to {total[row]:.6g} with smallest entry "
                f"{rows[row].min():.6g}; divide each row by its sum"
            )
    if not np.isfinite(reward).all():
        row = tuple(int(i) for i in np.argwhere(~np.isfinite(reward))[0])
        raise ValueError(f"reward {row} is {reward[row]}; every reward must be a finite number, so mend or clip it")
    return worlds
