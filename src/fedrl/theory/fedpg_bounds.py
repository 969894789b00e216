"""The convergence theorems of FedPG: `labbi2025` Lemma 4.1 / C.3, Theorems 4.2, D.12, E.12, E.21, F.3 and their corollaries.

Terms are natural logarithms, since mu is too small for a float (`lojasiewicz`). J* is the mean of the clients' own optima,
which no common policy need reach. `constants` come from `fedpg_constants`.

Unlike the paper, the bias in Corollary E.13 and Theorems E.21 and F.3 has the factor 64 and not 16: 4 beta^2 / mu of Theorem
E.12 with T + 1/(1 - gamma) <= 2 T is 64 (1 + lam log|A|)^2 gamma^(2T) T^2 / (mu (1 - gamma)^2). In Theorem F.3 T counts
bits, k times the horizon of an episode: so App. F.2 bounds the bias.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from fedrl.theory.fedpg_constants import Constants

LOCAL = 1.0 / 74.0  # eta H L2 may be as large in Theorems D.12 and E.12


class Run(NamedTuple):
    gap: float  # J* - J(theta^0)
    M: int  # clients
    eta: float  # step size
    H: int  # local steps
    R: int  # rounds


class Terms(NamedTuple):
    """Logarithms of what J* - E J(theta^R) is bounded by, by cause; -inf is zero."""

    start: float  # what R rounds have left of the first gap
    noise: float  # falls like eta / M: the linear speed-up
    heterogeneity: float  # grows with epsilon_P
    truncation: float  # falls with T
    local: float  # of noise in local steps, zero at H = 1

    @property
    def total(self) -> float:
        """log of the bound itself."""
        largest = max(self)
        return largest if math.isinf(largest) else largest + math.log(sum(math.exp(x - largest) for x in self))


def largest_eta_H(constants: Constants) -> float:
    """The largest eta H that Theorems D.12 and E.12 allow, 1 / (74 L2).

    It implies the two conditions of Lemma 4.1, `ascends`. Corollaries D.13 and E.13 write it as (1 - gamma)^3 / 592 and
    (1 - gamma)^3 / (888 (1 + lam log|A|)); the second is at most this if lam <= 1 + lam log|A|.
    """
    return LOCAL / constants.L2


def ascends(constants: Constants, eta: float, H: int) -> bool:
    """The conditions of Lemma 4.1: eta H L2 <= 1/6 and 32 (eta H L3 L1)^2 <= L2^2."""
    L1, L2, L3 = constants[:3]
    return eta * H * L2 <= 1.0 / 6.0 and 32.0 * (eta * H * L3 * L1) ** 2 <= L2**2


def lemma_41(constants: Constants, squared_gradient: float, *, M: int, eta: float, H: int) -> float:
    """The least E F(theta^{r+1}) - F(theta^r) that one round brings, where ||grad F(theta^r)||^2 is `squared_gradient`.

    A projection that does not lower F (Lemma E.19) may follow. Constants that hold near theta^r will do, and zeta at it.
    """
    if not ascends(constants, eta, H):
        raise ValueError(
            f"Lemma 4.1 needs eta H L2 <= 1/6 and 32 (eta H L3 L1)^2 <= L2^2, got eta = {eta:.3g}, H = {H}; "
            f"eta = {largest_eta_H(constants) / H:.3g} is short enough"
        )
    _, L2, L3, zeta, _, sigma2, sigma4 = constants
    noise = 1.5 * eta**2 * L2 * H * sigma2 / M
    drift = 8.0 * eta**3 * L2**2 * H**2 * (H - 1) * zeta**2
    local = 4.0 * 12**3 * eta**5 * L3**2 * H**2 * (H - 1) * sigma4
    return eta * H / 4.0 * squared_gradient - noise - 2.0 * eta * H * constants.beta**2 - drift - local


def theorem_e12(constants: Constants, run: Run, log_mu: float) -> Terms:
    """RS-FedPG, where mu bounds Lemma E.10's from below along the run; with `bit_constants` the b-RS-FedPG of Theorem F.3.

    Theorem E.21 is the same with |A| = 2, projected onto the ball, in which `least_log_mu` bounds mu.
    """
    _check(constants, run)
    gap, M, eta, H, R = run
    _, L2, L3, zeta, log_beta, sigma2, sigma4 = constants
    shrink = math.exp(log_mu) * eta * H / 2.0
    return Terms(
        start=R * math.log1p(-shrink) + _log(gap) if shrink < 1.0 else -math.inf,
        noise=_log(3.0 * eta * L2 * sigma2 / M) - log_mu,
        heterogeneity=2.0 * _log(zeta) - log_mu,
        truncation=math.log(4.0) + 2.0 * log_beta - log_mu,
        local=math.log(8.0 * 12**3) + 4.0 * math.log(eta) + _log(L3**2 * H * (H - 1) * sigma4) - log_mu,
    )


def theorem_e21(
    run: Run, log_mu: float, gamma: float, *, lam: float, horizon: int, batch: int, epsilon_p: float, actions: int = 2
) -> Terms:
    """Corollary E.13 and Theorem E.21 in plain numbers; `theorem_e12` is at most this where lam <= 1 + lam log|A|.

    eta H <= (1 - gamma)^3 / (888 (1 + lam log|A|)) and T >= 1 / (1 - gamma). Theorem F.3 is this for gamma = gammabar,
    two actions and k times the horizon.
    """
    gap, M, eta, H, R = run
    rest, scale = 1.0 - gamma, 1.0 + lam * math.log(actions)
    allowed = rest**3 / (888.0 * scale)
    if eta * H > allowed * (1 + 1e-12) or horizon < 1.0 / rest:
        raise ValueError(
            f"Theorem E.21 needs eta H <= {allowed:.3g} and T >= {1 / rest:.3g}, got eta H = {eta * H:.3g}, T = {horizon}; "
            "take a shorter step, or longer episodes"
        )
    log_rest = math.log(rest)
    return Terms(
        start=R * math.log1p(-math.exp(log_mu) * eta * H / 2.0) + _log(gap),
        noise=math.log(864.0 * eta * scale**3 / (batch * M)) - 7.0 * log_rest - log_mu,
        heterogeneity=math.log(38.0 * scale**2) + 2.0 * _log(epsilon_p) - 6.0 * log_rest - log_mu,
        truncation=math.log(64.0) + 2.0 * math.log(scale * horizon / rest) + 2.0 * horizon * math.log(gamma) - log_mu,
        local=8.0 * math.log(51.0) + _log(eta**4 * H * (H - 1) * scale**6 / batch**2) - 16.0 * log_rest - log_mu,
    )


def theorem_d12(constants: Constants, run: Run, log_mu: float) -> Terms:
    """S-FedPG, where mu bounds Lemma D.9's from below along the run. The four last summands join their causes."""
    _check(constants, run)
    gap, M, eta, H, R = run
    _, L2, L3, zeta, log_beta, sigma2, sigma4 = constants
    local = eta**4 * L3**2 * H * (H - 1) * sigma4
    return Terms(
        start=_log(gap) - math.log1p(R * gap * eta * H / 4.0 * math.exp(log_mu)),
        noise=_sum(0.5 * (_log(6.0 * eta * L2 * sigma2 / M) - log_mu), _log(eta * sigma2 / (12.0 * M))),
        heterogeneity=_sum(0.5 * (_log(2.0 * zeta**2) - log_mu), _log(zeta**2 / (37.0 * L2))),
        truncation=_sum(0.5 * (math.log(8.0) - log_mu) + log_beta, 2.0 * log_beta - math.log(9.0 * L2)),
        local=_sum(0.5 * (_log(16.0 * 12**3 * local) - log_mu), _log(3.0 * 12**2 * local / L2)),
    )


def theorem_42(run: Run, log_mu: float, gamma: float, *, horizon: int, batch: int, epsilon_p: float) -> Terms:
    """Corollary D.13, Theorem 4.2 with its numbers; `theorem_d12` is at most this where it applies.

    eta H <= (1 - gamma)^3 / 592, T >= 4 / (1 - gamma)^2 and M B >= 1 / (1 - gamma).
    """
    gap, M, eta, H, R = run
    rest = 1.0 - gamma
    if eta * H > rest**3 / 592.0 * (1 + 1e-12) or horizon < 4.0 / rest**2 or M * batch * rest < 1.0 - 1e-12:
        raise ValueError(
            f"Theorem 4.2 needs eta H <= {rest**3 / 592:.3g}, T >= {4 / rest**2:.3g} and M B >= {1 / rest:.3g}, got eta H = "
            f"{eta * H:.3g}, T = {horizon}, M B = {M * batch}; use theorem_d12, which needs only the first"
        )
    log_rest, half = math.log(rest), 0.5 * log_mu
    return Terms(
        start=_log(gap) - math.log1p(R * gap * eta * H / 4.0 * math.exp(log_mu)),
        noise=math.log(25.0) + 0.5 * math.log(eta / (M * batch)) - 3.5 * log_rest - half,
        heterogeneity=_log(10.0 * epsilon_p) - 3.0 * log_rest - half,
        truncation=math.log(13.0 * horizon) + horizon * math.log(gamma) - log_rest - half,
        local=math.log(2.0 * 7**8 / batch) + 2.0 * math.log(eta) + 0.5 * _log(H * (H - 1)) - 8.0 * log_rest - half,
    )


def lemma_d11(first: float, kappa: float, B: float, r: int) -> float:
    """The bound on w_r of any positive sequence with w_{r+1} <= w_r - kappa w_r^2 + B: behind Theorem D.12."""
    return math.sqrt(B / kappa) + B + first / (1.0 + kappa * r * first)


class Plan(NamedTuple):
    """Settings for which Theorem E.12 promises J* - E J(theta^R) <= epsilon; logarithms of what no float holds."""

    log_eta: float
    log_H: float
    horizon: int
    log_rounds: float  # rounds of communication, R
    log_trajectories: float  # for each client, R H B


def corollary_e14(
    epsilon: float, gap: float, M: int, log_mu: float, constants_at: Callable[[int], Constants], batch: int = 1
) -> Plan:
    """RS-FedPG and, with `bit_constants`, b-RS-FedPG (Corollary F.4): the largest step with each of five terms at epsilon/5.

    `constants_at` gives the constants for a horizon T. Then eta H is the largest allowed, and R follows. Unlike the paper, R
    has 2 / (eta H mu), twice the 888 that is printed, and in Corollary F.4 (1 - gammabar)^3, not its square; H is taken
    as a number, which is whole only if it is large. The linear speed-up ends where the step no longer grows with M.
    """
    fifth, once = math.log(epsilon / 5.0), constants_at(1)
    apart = 2.0 * _log(once.zeta) - log_mu
    if apart > fifth:
        raise ValueError(
            f"no setting reaches epsilon = {epsilon:g}: by this bound heterogeneity alone leaves exp({apart:.4g}); "
            "make epsilon larger, or the environments more alike"
        )
    allowed = math.log(largest_eta_H(once))
    by_noise = fifth + log_mu - math.log(3.0 * once.L2 * once.sigma2 / M)
    by_local = 0.5 * (fifth + log_mu - math.log(8.0 * 12**3 * once.L3**2 * once.sigma4) - 2.0 * allowed)
    log_eta = min(allowed, by_noise, by_local)  # of local: eta^4 H (H - 1) <= eta^2 (eta H)^2
    log_rounds = math.log(2.0) - allowed - log_mu + _log(max(math.log(5.0 * gap / epsilon), 0.0))
    horizon = _least_horizon(lambda T: math.log(4.0) + 2.0 * constants_at(T).log_beta - log_mu <= fifth)
    log_H = allowed - log_eta
    return Plan(log_eta, log_H, horizon, log_rounds, log_rounds + log_H + math.log(batch))


def _least_horizon(enough: Callable[[int], bool]) -> int:
    """By doubling and halving; `beta` falls with T from T = 1 / (1 - gamma) on, and is larger before."""
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _check(constants: Constants, run: Run) -> None:
    allowed = largest_eta_H(constants)
    if run.eta * run.H > allowed * (1 + 1e-12):
        raise ValueError(
            f"Theorems D.12 and E.12 need eta H <= 1 / (74 L2) = {allowed:.3g}, got {run.eta * run.H:.3g}; they say nothing "
            f"of longer steps: take eta = {allowed / run.H:.3g}"
        )


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    high, low = max(a, b), min(a, b)
    return high if math.isinf(low) or math.isinf(high) else high + math.log1p(math.exp(low - high))
