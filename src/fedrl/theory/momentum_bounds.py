"""`wang2024` Theorems 6.4 / C.4 (FedSVRPG-M) and 6.5 / D.4 (FedHAPG-M): parameters, and bounds on the mean ||grad J||^2.

The two differ in the constants L_bar and L_hat and in two numbers (`Theorem`). What to know about them:

- eta is constant within a run but falls with R, like R^(-1/2) (`printed_eta`). At a *fixed* eta neither method removes the
  bias of client drift: where u no longer changes, a client moves by beta grad J_i(theta) and back by its own curvature, so
  that on noise-free quadratics the fixed point is PAvg's for every beta, and ||grad J||^2 there is of order eta^2.
  `tests/theory/test_momentum_bounds.py` shows this beside SCAFFOLD (Karimireddy et al. 2020), which has no such bias.
- The printed condition on eta does not imply Lemma C.3, which the proof uses and which asks for eta K L_1 of order beta,
  where (beta / N)^(1/2) is printed. `admissible_eta` solves the conditions of the lemmas instead.
- Assumption 6.3, one W for all theta_1 and theta_2, is false for every softmax policy: as theta_2 gives some action less and
  less probability, Var w grows without bound. The constants below are for a W that is true where the iterates go.
- Three misprints are corrected. Lemma C.1 needs 18 lambda^2 L_2^2 <= beta N K / 9 as in (37), not the 16 beta N K printed
  there; (37) has beta^2 / (N K) where its proof needs beta / (N K); after (37), Sigma_{-1} has the factor 39 / (56 beta) and
  not 1 / (35 beta).
"""

import math
from typing import NamedTuple

GRADIENT_SOFTMAX, HESSIAN_SOFTMAX = math.sqrt(2.0), 0.5  # G and M of Assumption 6.1 for a softmax table


class Problem(NamedTuple):
    """Assumptions 6.1 to 6.3 and the sizes on which the constants depend. The appendix writes lambda for gamma."""

    H: int  # steps of an episode
    gamma: float
    reward: float  # R_max
    sigma: float  # Var g_i <= sigma^2
    gap: float  # Delta = J(theta*) - J(theta_0)
    G_0: float  # mean over clients of ||grad J_i(theta_0)||^2
    W: float  # Var w <= W
    G: float = GRADIENT_SOFTMAX  # ||grad log pi|| <= G
    M: float = HESSIAN_SOFTMAX  # ||Hessian of log pi|| <= M


class Constants(NamedTuple):
    L: float  # J and every J_i are L-smooth, Proposition 1
    L_g: float  # g is L_g-Lipschitz
    C_g: float  # ||g|| <= C_g
    C_w: float  # Var w(theta_1, theta_2) <= C_w ||theta_1 - theta_2||^2, Lemma B.2
    L_1: float  # of Lemma C.1
    L_2: float
    L_3: float  # of Lemma C.2
    L_4: float  # of Proposition 2


def constants(problem: Problem) -> Constants:
    H, gamma, reward, _, _, _, W, G, M = problem
    L = H * reward * (M + H * G**2) / (1.0 - gamma)
    L_g, C_g = H * M * reward / (1.0 - gamma), H * G * reward / (1.0 - gamma)
    C_w = H * (2.0 * H * G**2 + M) * (W + 1.0)
    changes = C_w * C_g**2
    return Constants(
        L,
        L_g,
        C_g,
        C_w,
        L_1=math.sqrt(L**2 + 24.0 * changes + 6.0 * L_g**2),
        L_2=math.sqrt(L_g**2 + 2.0 * changes),
        L_3=math.sqrt(2.0 * changes + 2.0 * L_g**2),
        L_4=reward * math.sqrt(H**2 * G**4 + M**2) / (1.0 - gamma) ** 2,
    )


class Theorem(NamedTuple):
    """The constants of one of the two proofs, by their places in it."""

    smooth: float  # L_bar of Theorem C.4, L_hat of Theorem D.4
    drift: float  # of the drift term: L_1, or L_hat
    variance: float  # in the bound of Lemma C.2 or D.2: L_3, or L_4
    L: float  # of Proposition 1
    step: float  # lambda <= (beta N K / step)^(1/2) / smooth: 162, or 72
    first: float  # lambda <= 1 / (24 first): L, or L_hat


def theorem_c4(problem: Problem) -> Theorem:
    """FedSVRPG-M: L_bar = max(L, L_1, L_2, L_3)."""
    it = constants(problem)
    return Theorem(max(it.L, it.L_1, it.L_2, it.L_3), it.L_1, it.L_3, it.L, 162.0, it.L)


def theorem_d4(problem: Problem) -> Theorem:
    """FedHAPG-M: L_hat = (2 L^2 + 4 L_4^2)^(1/2); W plays no part."""
    it = constants(problem)
    L_hat = math.sqrt(2.0 * it.L**2 + 4.0 * it.L_4**2)
    return Theorem(L_hat, L_hat, it.L_4, it.L, 72.0, L_hat)


def beta(theorem: Theorem, problem: Problem, *, N: int, K: int, R: int) -> float:
    """min{1, (N K L^2 Delta^2 / (sigma^4 R^2))^(1/3)}: momentum only after many rounds, or with much noise."""
    return min(1.0, math.cbrt(N * K * (theorem.smooth * problem.gap) ** 2 / (problem.sigma**4 * R**2)))


def server_step(theorem: Theorem, beta: float, *, N: int, K: int) -> float:
    """lambda = min{1 / (24 L), (beta N K / 162)^(1/2) / L_bar}; 72 and L_hat in Theorem D.4. Not divided by eta K."""
    return min(1.0 / (24.0 * theorem.first), math.sqrt(beta * N * K / theorem.step) / theorem.smooth)


def first_batch(beta: float, *, K: int, R: int) -> int:
    """B = ceil(K / (R beta^2)): episodes per client behind u_0. `algorithms.momentum_anchor.theorem_batch` is the same."""
    return math.ceil(K / (R * beta * beta))


def printed_eta(theorem: Theorem, problem: Problem, beta: float, step: float, *, N: int, K: int, R: int) -> float:
    """The eta of the theorems with a one for the number that their "less than a constant times" leaves out."""
    parts = (
        math.sqrt(problem.gap / (problem.G_0 * step * R)),
        math.sqrt(beta / N),
        math.sqrt(math.sqrt(beta / (N * K))),
    )
    return min(parts) / (K * theorem.smooth)


def admissible(theorem: Theorem, eta: float, beta: float, step: float, *, N: int, K: int, R: int) -> bool:
    """Whether all that the proof asks of eta holds: Lemmas C.2 and C.3 and (37); D.2, D.3 and (61)."""
    e, L, x = math.e, theorem.L, eta * K * theorem.drift
    curvature = 2.0 * (eta * K * L) ** 2 + 1.0 / K
    slow = 289.0 / 72.0 * (1.0 - beta) ** 2 + 8.0 * e * (step * beta * L * R) ** 2
    return (
        eta <= min(L / (32.0 * e**2 * theorem.variance**2 * K), 1.0 / (K * L))
        and 288.0 * e * x**2 * slow <= beta**2
        and 32.0 * x**2 * curvature * (step * L) ** 2 <= beta**2 / 18.0
        and 8.0 * x**2 * curvature <= beta / (N * K)
    )


def admissible_eta(theorem: Theorem, beta: float, step: float, *, N: int, K: int, R: int) -> float:
    """The largest eta that is `admissible`, by bisection: every condition is monotone in eta."""
    low, high = 0.0, 1.0 / (K * theorem.L)
    for _ in range(200):
        middle = 0.5 * (low + high)
        fits = admissible(theorem, middle, beta, step, N=N, K=K, R=R)
        low, high = (middle, high) if fits else (low, middle)
    return low


def bound(
    theorem: Theorem, problem: Problem, *, eta: float, beta: float, step: float, B: int, N: int, K: int, R: int
) -> float:
    """(1/R) sum_r E||grad J(theta_r)||^2 for an admissible eta, with the numbers of the last step of the proof.

    Delta / (lambda R), the errors of the start, the drift (eta K L)^2 G_0, which no number of rounds reduces, and the noise.
    Unlike the paper, which drops it, the sum from r = -1 on counts ||grad J(theta_0)||^2 <= G_0 twice.
    """
    start = 39.0 / 56.0 * problem.sigma**2 / (N * B) / (beta * R) + 13.0 / 84.0 * problem.G_0 / R
    drift = 78.0 / 7.0 * (math.e * eta * K * theorem.drift) ** 2 * problem.G_0
    noise = 39.0 / 14.0 * beta * problem.sigma**2 / (N * K)
    return 3.5 * (problem.gap / (step * R) + start + drift + noise)


def rate(theorem: Theorem, problem: Problem, *, N: int, K: int, R: int) -> float:
    """(L Delta sigma / (N K R))^(2/3) + L Delta / R: Eq. (6) and (7), up to a number."""
    scale = theorem.smooth * problem.gap
    return math.cbrt((scale * problem.sigma / (N * K * R)) ** 2) + scale / R


class Complexity(NamedTuple):
    rounds: float  # R: messages of each client
    episodes: float  # K R: of each client


def complexity(theorem: Theorem, problem: Problem, epsilon: float, *, N: int) -> Complexity:
    """What makes both terms of `rate` epsilon / 2: of order 1 / epsilon rounds, epsilon^(-3/2) / N episodes (Cor. 6.6)."""
    scale = theorem.smooth * problem.gap
    return Complexity(2.0 * scale / epsilon, scale * problem.sigma * math.sqrt(2.0 / epsilon) ** 3 / N)
