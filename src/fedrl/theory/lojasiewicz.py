"""How strongly a client's gradient pulls to its optimum: mu of `labbi2025` Lemmas D.9, E.10, E.20, F.2, as its logarithm.

Logarithms, because mu itself is out of reach of floating point: the bound that b-RS-FedPG is analysed with has
log10(mu) = -14,350 on the paper's Synthetic task.
"""

import math

import jax.numpy as jnp
from jax import Array

from fedrl.environments.tabular import solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.theory.bit_level import bit_discount, projection_radius


def log_mu_sm(mdp: MDP, pi: Array, gamma: float) -> Array:
    """log mu of ||grad J||^2 >= 2 mu (J* - J)^2 at the softmax policy pi [S, A], Lemma D.9.

    mu = min_s pi(a*(s)|s)^2 / (2 |S|) * ||d* / d||^-2, with d* the occupancy of an optimal policy that plays a*.
    """
    states, actions = pi.shape
    choice, _ = solvers.optimal(mdp, gamma)
    ratio = _largest_ratio(mdp, solvers.deterministic(choice, actions, pi.dtype), pi, gamma)
    chosen = jnp.take_along_axis(pi, choice[:, None], axis=-1)
    return 2.0 * jnp.log(jnp.min(chosen)) - math.log(2.0 * states) - 2.0 * jnp.log(ratio)


def log_mu_r(mdp: MDP, pi: Array, gamma: float, lam: float) -> Array:
    """log mu of ||grad J_r||^2 >= 2 mu (J_r* - J_r) at the softmax policy pi [S, A], Lemma E.10.

    mu = lam min_s d(s) min pi^2 / (|S| (1 - gamma)) * ||d* / d||^-1, with d* the occupancy of the regularised optimum. In
    the bit-level MDP (`bit_level_mdp`, discounted by `bit_discount`) it is that of J_b, Eq. (67), and |S| counts all its
    states. The inequality holds without the |S| as well: Jensen's inequality, for which it pays, is not needed.
    """
    best, _ = solvers.soft_optimal(mdp, gamma, lam)
    occupancy = solvers.visitation(mdp, pi, gamma)
    ratio = _largest_ratio(mdp, best, pi, gamma)
    scale = math.log(lam) - math.log(pi.shape[0] * (1.0 - gamma))
    return scale + jnp.log(jnp.min(occupancy)) + 2.0 * jnp.log(jnp.min(pi)) - jnp.log(ratio)


def least_log_mu(lam: float, gamma: float, *, states: int, least_start: float, k: int = 1) -> float:
    """A lower bound of log mu in the ball that RS- or b-RS-FedPG projects onto, Lemma F.2; k = 1 is Lemma E.20.

    mu >= gammabar^(3k-3) lam (1 - gammabar) least_start^2 / (4^k |S|) * exp(-4 k R), with R the `projection_radius` and
    least_start the smallest probability of a first state. Unlike Corollary 4.5, which has gamma^3 and 4^log|A|, it is
    what is proved (which would even give gammabar^(2k-2)).
    """
    if not 0.0 < least_start <= 1.0 / states:
        raise ValueError(
            f"every state must have a chance to be the first (A-2), so the least of {states} lies in (0, {1 / states:g}], "
            f"got least_start = {least_start}; mix some of the uniform distribution into the start"
        )
    discount, radius = bit_discount(gamma, k), projection_radius(lam, gamma, k)
    power = (3 * k - 3) * math.log(discount) + math.log(lam * (1.0 - discount)) + 2.0 * math.log(least_start)
    return power - k * math.log(4.0) - math.log(states) - 4.0 * k * radius


def _largest_ratio(mdp: MDP, best: Array, pi: Array, gamma: float) -> Array:
    """max_s d^best(s) / d^pi(s); states that neither visits do not count."""
    top, occupancy = solvers.visitation(mdp, best, gamma), solvers.visitation(mdp, pi, gamma)
    return jnp.max(jnp.where(top > 0.0, top / occupancy, jnp.zeros_like(top)))
