"""Differences within a stack of MDPs: in kernels (`labbi2025` A-1, `xie2025` Def. 2) and in gradients.

The maximum over policies in Def. 2 is attained by a deterministic action: in state s the two rows differ by
sum_a pi(a|s) (P_i - P_j)(.|s, a), and the L1 norm, being convex, is largest at a corner of the simplex of pi(.|s). So
each kappa is the largest L1 distance over (s, a), and lies in [0, 2].
"""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.environments.tabular import finite, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.trees import Tree, squared_norm, subtract
from fedrl.types import Policy


def _distance(kernel: Array, other: Array) -> Array:
    return jnp.max(jnp.sum(jnp.abs(kernel - other), axis=-1))


def kappa_pairs(env_params: MDP) -> Array:
    """kappa_{i,j} [N, N] of Def. 2; symmetric with a zero diagonal."""

    def row(one: Array) -> Array:
        return jax.vmap(lambda other: _distance(one, other))(env_params.kernel)

    pairs: Array = jax.lax.map(row, env_params.kernel)
    return pairs


def kappa_imaginary(env_params: MDP, weight: Array | None = None) -> Array:
    """kappa_{n,I} [N]: distance of each client from the imaginary MDP."""
    mean = finite.average(env_params, weight).kernel
    return jax.vmap(lambda one: _distance(one, mean))(env_params.kernel)


def epsilon_p(env_params: MDP) -> Array:
    """The least epsilon_P for which `labbi2025` A-1 holds; 0 for equal kernels, at most 2."""
    return jnp.max(kappa_pairs(env_params))


def kappa_1(env_params: MDP, weight: Array | None = None) -> Array:
    """sum_n q_n kappa_{n,I}; never above `kappa_2`."""
    return solvers.weighted(kappa_imaginary(env_params, weight), weight)


def kappa_2(env_params: MDP, weight: Array | None = None) -> Array:
    """sum_{i,j} q_i q_j kappa_{i,j}, the pairs i = j included."""
    return solvers.weighted(solvers.weighted(kappa_pairs(env_params), weight), weight)


def gradient_heterogeneity(
    policy: Policy,
    theta: Tree,
    env_params: MDP,
    gamma: float,
    lam: float = 0.0,
    bit_discount: float | None = None,
    weight: Array | None = None,
) -> Array:
    """max_c ||grad F(theta) - grad f_c(theta)||_2 at this theta: the least zeta of Lemma 4.1, condition 2, there."""
    local = jax.vmap(lambda mdp: solvers.gradient(policy, theta, mdp, gamma, lam, bit_discount))(env_params)
    mean = jax.tree.map(lambda x: solvers.weighted(x, weight), local)
    return jnp.sqrt(jnp.max(jax.vmap(lambda one: squared_norm(subtract(one, mean)))(local)))
