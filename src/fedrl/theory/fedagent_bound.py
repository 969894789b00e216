"""`fedagent` Theorem 1: how far from the best the mean of M of K clients stays after T rounds.

The inequality follows from the paper's proof (App. C.2), with E over noise and client draws. What to know about it:

- Assumptions 2 (gradients bounded by G) and 4 (PL) cannot both hold on all of R^d: from PL follows
  mu/2 ||theta - theta*||^2 <= J(theta*) - J(theta) <= G^2 / (2 mu). The proof uses them only where the iterates go, so
  it holds with a G, sigma and zeta that are good there (a bounded noise keeps the iterates of a quadratic in a box).
- By the same two assumptions no policy at all is worse than `trivial`, G^2 / (2 mu). The noise floor alone is at least
  that at M = 1, and above it at M = 2 and tau = 3 (the paper's experiments) as soon as sigma^2 > 0.385 G^2: the theorem
  then says nothing. On quadratics of known constants the measured gap is 0.002 to 0.13 of the bound.
- The remark below it says the floor vanishes at M = K, tau = 1 and zeta = 0. It does not: (G^2 + sigma^2) / (2 mu M) stays,
  even without noise. Lemma 2 bounds a variance by the second moment; at tau = 1 the variance is at most sigma^2, there is
  no drift and no mixed term, and `one_step_floor` holds, with equality where J = -L/2 ||theta||^2 and J_k differ by shifts.
- O(1/T) is for a random one of the iterates; the last one approaches the floor like (1 - mu/L)^T (`last_iterate`).
"""

from typing import NamedTuple


class Problem(NamedTuple):
    gap: float  # J(theta*) - J(theta_0)
    L: float  # every grad J_k is L-Lipschitz, Assumption 1
    mu: float  # of the PL condition on J, Assumption 4
    G: float  # ||grad J_k|| <= G, Assumption 2
    sigma: float  # E||g - grad J_k||^2 <= sigma^2, Assumption 3
    zeta: float  # mean over k of ||grad J_k - grad J||^2 <= zeta^2, Assumption 5
    K: int  # clients
    M: int  # of them in a round, drawn without replacement
    tau: int  # local steps
    T: int  # rounds


class Floor(NamedTuple):
    """The three parts of the noise floor, already over 2 mu."""

    local: float  # (G^2 + sigma^2) / M
    sampling: float  # 2 (K - M) / (M (K - 1)) zeta^2
    drift: float  # (tau - 1)^2 / (2 tau^2) (G^2 + sigma^2)


def eta(problem: Problem) -> float:
    """The step size for which all of this holds, 1 / (L tau)."""
    return 1 / (problem.L * problem.tau)


def finite_population(K: int, M: int) -> float:
    """Lemma 1: variance of the mean of M of K numbers over the variance of one; zero at M = K, also at K = 1."""
    if not 1 <= M <= K:
        raise ValueError(f"a round has M of K clients with 1 <= M <= K, got M = {M}, K = {K}; lower M or raise K")
    return (K - M) / (M * (K - 1)) if K > 1 else 0.0


def floor_parts(problem: Problem) -> Floor:
    """The terms that T does not reduce, by cause: noise of local steps, client sampling, local drift."""
    _, L, mu, G, sigma, zeta, K, M, tau, T = problem
    if not 0 < mu <= L or tau < 1 or T < 1 or min(problem) < 0:
        raise ValueError(
            f"Theorem 1 needs 0 < mu <= L, tau >= 1, T >= 1 and nothing below zero, got {problem}; check the constants"
        )
    second_moment = G**2 + sigma**2
    sampling = 2 * finite_population(K, M) * zeta**2
    return Floor(*(x / (2 * mu) for x in (second_moment / M, sampling, second_moment * (tau - 1) ** 2 / (2 * tau**2))))


def noise_floor(problem: Problem) -> float:
    """The second term of Theorem 1."""
    return sum(floor_parts(problem))


def theorem_1(problem: Problem) -> float:
    """E[J(theta*) - J(theta~)] for theta~ drawn evenly from theta_0, ..., theta_{T-1}."""
    return problem.L / (problem.mu * problem.T) * problem.gap + noise_floor(problem)


def last_iterate(problem: Problem) -> float:
    """E[J(theta*) - J(theta_T)], Eq. (16) unrolled over T rounds."""
    contraction = (1 - problem.mu / problem.L) ** problem.T
    return contraction * problem.gap + (1 - contraction) * noise_floor(problem)


def one_step_floor(problem: Problem) -> float:
    """The floor at tau = 1 that the proof could give: sigma^2 / M + (K - M) / (M (K - 1)) zeta^2, over 2 mu.

    Not in the paper.
    """
    if problem.tau != 1:
        raise ValueError(
            f"one_step_floor is for tau = 1, got tau = {problem.tau}; take noise_floor for more local steps"
        )
    return (problem.sigma**2 / problem.M + finite_population(problem.K, problem.M) * problem.zeta**2) / (2 * problem.mu)


def trivial(problem: Problem) -> float:
    """J(theta*) - J(theta) of any theta by Assumptions 2 and 4 alone."""
    return problem.G**2 / (2 * problem.mu)
