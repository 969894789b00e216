"""Bounds on the mean squared gradient norm of periodic averaging: `xu2024` Eq. (14)-(26) and App. A-F.

Each psi_1 bounds (1/K) sum_k E||grad F(theta_bar_k)||^2 for eta within Eq. (14). A1 is assumed for one F of all agents:
L-smooth, bounded below, unbiased gradients, E||g - grad F||^2 <= beta ||grad F||^2 + sigma^2; Lemma 1 also needs the
agents' noises to be independent, which A1 does not say.

Unlike the paper, whose (17), (22) and (26) are for that plain mean over k, they hold for

    (1/K) sum_k p_k E||grad F(theta_bar_k)||^2,     p_k = (1/m) sum_i I(tau_i > k - t_0) D(k)     (`participation`)

and so for the plain mean if every p_k is one, as in (15), or after division by the least p_k. Lemma 4 takes
theta_bar_{k+1} = theta_bar_k - eta G_k with G_k the mean over all m agents; by (11) and (19) it moves only by those still
at work, times D(k), so K iterations descend like K mean(p). With F = theta^2 / 2, no noise, eta = 0.01, K = 6000 and
tau = 15 the plain mean is 2.57 times (17) for tau_i = 15, 1, 1, 1, 1, 1, 1 and 1.11 times (22) for tau_i = 1, ..., 15 and
lambda = 0.92. Keeping p_k through Lemmas 1 to 4 costs nothing else: no weight is above one.

(15) and (26) are loose by summing j = 1..tau where k = t_0 + j has j = 0..tau-1: tau + 1 could be tau - 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedrl.learners.decay import Decay, constant


class Problem(NamedTuple):
    gap: float  # F(theta_bar_0) - F_inf
    L: float  # Lipschitz constant of grad F
    sigma2: float  # sigma^2 of A1
    m: int  # agents
    eta: float  # learning rate
    K: int  # iterations


def equation_14(eta: float, L: float, m: int, tau: int, beta: float = 0.0) -> float:
    """The left side of Eq. (14): every bound here needs it <= 0."""
    x = eta * L
    return x * (beta / m + 1) - 1 + 2 * x**2 * tau * beta + x**2 * tau * (tau + 1)


def largest_eta(L: float, m: int, tau: int, beta: float = 0.0) -> float:
    """The largest learning rate that Eq. (14) allows; 1 / (L (tau + 1)) at beta = 0, as the remarks have it."""
    linear, square = beta / m + 1, tau * (2 * beta + tau + 1)
    eta: float = 2 / (L * (linear + (linear**2 + 4 * square) ** 0.5))
    return eta


def shared(problem: Problem) -> float:
    """The two terms that all bounds share: those of SGD that averages at every step."""
    gap, L, sigma2, m, eta, K = problem
    return 2 * gap / (eta * K) + eta * L * sigma2 / m


def psi_1_P(problem: Problem, tau: int) -> float:
    """Periodic averaging with tau updates by everyone, Eq. (15)."""
    return shared(problem) + _scale(problem) * (tau + 1)


def psi_1_V(problem: Problem, tau: int, nu: float, omega2: float) -> float:
    """Variation-aware periodic averaging, Eq. (17), weighted by `participation`; nu, omega2: mean, variance of tau_i.

    nu = tau and omega2 = 0 give (15). For tau_i uniform on 1..tau omega2 is (tau^2 - 1) / 12; unlike the paper, which
    has (tau - 1)^2 / 12 above C1.
    """
    return shared(problem) + _scale(problem) / tau * (-(nu**2) + (2 * tau + 1) * nu - omega2)


def psi_1_D(problem: Problem, tau: int, lam: float) -> float:
    """Decay D(y) = lambda^(y/2) with tau_i uniform on 1..tau, Eq. (22), weighted by `participation`.

    The exponent in Eq. (21) is garbled in the text we have; Z(j) = (1 - lambda^j) / (1 - lambda) of App. E sums D^2, so it
    is y/2, and y begins anew in each period (A3).

    The square bracket of (22) is the sum over y of lambda^y (tau - y)^2 / tau, and is computed so: the printed form is 0/0
    at lambda = 1. There it is (17) with the variance (tau^2 - 1) / 12; at lambda = 0 it is (15) with tau = 1, which says
    nothing good of lambda = 0: one update in tau then counts, and p_k is zero for the others.
    """
    y = np.arange(tau)
    return shared(problem) + 2 * _scale(problem) / tau * float(np.sum(lam**y * (tau - y) ** 2)) / tau


def psi_1_D_of(problem: Problem, tau: int, tau_i: Sequence[int], decay: Decay = constant) -> float:
    """Any decay and any tau_i [m]: App. D and E before any assumption on them; weighted by `participation`.

    sum_i sum_j min{Z(tau_i), Z(j)} of (53), with Z(j) the sum of D^2 over j updates. D = 1 gives (17), whence T1.
    """
    D = _weights(tau, decay)
    working = participation(tau, tau_i)
    return shared(problem) + 2 * _scale(problem) / tau * float(np.sum(D**2 * working * (tau - np.arange(tau))))


def psi_1_C(problem: Problem, tau: int, epsilon: float, mu_2: float, E: int, mu_m: float | None = None) -> float:
    """Consensus by E interactions before each update, Eq. (26), weighted by `participation` where tau_i differ.

    With the largest eigenvalue mu_m the factor is max(|1 - epsilon mu_2|, |1 - epsilon mu_m|), what the proof needs;
    without it 1 - epsilon mu_2 as printed, which is the same if epsilon (mu_2 + mu_m) <= 2 (`channels.graphs.contraction`).
    E = 0 is (15).
    """
    factor = max(abs(1 - epsilon * mu) for mu in (mu_2, mu_2 if mu_m is None else mu_m))
    return shared(problem) + _scale(problem) * (tau + 1) * factor ** (2 * E)


def participation(tau: int, tau_i: Sequence[int], decay: Decay = constant) -> np.ndarray:
    """p_y [tau]: the share of theta_bar's step left y updates into a period, the mean of I(tau_i > y) D(y) over i."""
    if not (min(tau_i) >= 1 and max(tau_i) == tau):
        raise ValueError(
            f"tau_i must lie in 1..tau = 1..{tau} and reach it (A2), got {list(tau_i)}; a period ends with its fastest "
            f"agent: set tau = {max(tau_i)}"
        )
    share: np.ndarray = (np.asarray(tau_i)[:, None] > np.arange(tau)).mean(axis=0) * _weights(tau, decay)
    return share


def _scale(problem: Problem) -> float:
    return (problem.eta * problem.L) ** 2 * problem.sigma2


def _weights(tau: int, decay: Decay) -> np.ndarray:
    D = np.asarray(decay(jnp.arange(tau, dtype=jnp.int32)), np.float64)
    if D[0] != 1.0 or (np.diff(D) > 0.0).any() or D[-1] < 0.0:
        raise ValueError(
            f"a decay begins with D(0) = 1 and never rises nor falls below 0 (A3), got {D} over tau = {tau} updates; "
            "divide it by D(0), or use fedrl.learners.decay.exponential"
        )
    return D
