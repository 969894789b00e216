"""The quantities in the bounds of FAPI, measured exactly: `xie2025` Eq. (4)-(10), Lemmas 5-17.

Clients are a stack of MDPs that share their reward. `weight` [N] is q; `cohort` [N] is q', which is zero for clients that do
not take part and sums to one; q itself is full participation. `values` [N, S] are the V_n^t, `pis` [N, S, A] the
pi_n^{t+1}.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.environments.tabular import solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.theory import heterogeneity


class Levels(NamedTuple):
    """Def. 2 seen from a cohort; `imaginary` is kappa_1 and `pairs` kappa_2 if everyone takes part."""

    imaginary: Array  # sum_m q'_m kappa_{m,I}
    pairs: Array  # sum_{m,n} q'_m q_n kappa_{m,n}


def levels(env_params: MDP, weight: Array, cohort: Array | None = None) -> Levels:
    participation = weight if cohort is None else cohort
    kappa_imaginary = heterogeneity.kappa_imaginary(env_params, weight)
    return Levels(
        jnp.dot(participation, kappa_imaginary), participation @ heterogeneity.kappa_pairs(env_params) @ weight
    )


def backup(mdp: MDP, pi: Array, v: Array, gamma: float | Array) -> Array:
    """T^pi V [S], §2.2."""
    return jnp.sum(pi * solvers.lookahead(mdp, v, gamma), axis=-1)


def best_backup(mdp: MDP, v: Array, gamma: float | Array) -> Array:
    """T V [S], §2.2."""
    return jnp.max(solvers.lookahead(mdp, v, gamma), axis=-1)


def average_values(env_params: MDP, pi: Array, gamma: float | Array, weight: Array) -> Array:
    """Vbar^pi [S] = sum_n q_n V_n^pi."""
    return solvers.weighted(jax.vmap(lambda mdp: solvers.value(mdp, pi, gamma))(env_params), weight)


def delta(env_params: MDP, pi: Array, values: Array, gamma: float | Array) -> Array:
    """delta_n [N] = ||V_n^t - V_n^{pi^t}||, Eq. (7)."""
    exact = jax.vmap(lambda mdp: solvers.value(mdp, pi, gamma))(env_params)
    return jnp.max(jnp.abs(values - exact), axis=-1)


def epsilon(mdp: MDP, pi: Array, v: Array, gamma: float | Array) -> Array:
    """||T^pi V - T V||, Eq. (5): of the imaginary MDP, or of one client (then `vmap` for epsilon_n of Algorithm 1, 2)."""
    return jnp.max(jnp.abs(backup(mdp, pi, v, gamma) - best_backup(mdp, v, gamma)))


def eps_theta(pi: Array, pis: Array, cohort: Array) -> Array:
    """max_s ||pi^{t+1}(.|s) - sum_m q'_m pi_m^{t+1}(.|s)||_2, Lemma 17; zero for a policy linear in its parameters."""
    return jnp.max(jnp.linalg.norm(pi - solvers.weighted(pis, cohort), axis=-1))


def eps_w(v: Array, values: Array, weight: Array) -> Array:
    """||V^t - Vbar^t||, Eq. (9); zero for a value function linear in its parameters."""
    return jnp.max(jnp.abs(v - solvers.weighted(values, weight)))
