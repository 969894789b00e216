"""Theorem 1 of FedAgent by hand, in its limits, and against runs of Algorithm 1 where all its constants are known; 4 s."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.theory import fedagent_bound as bound
from fedrl.theory.fedagent_bound import Problem

RUNS = 400


class Quadratics(NamedTuple):
    """J_k(theta) = -1/2 sum_j a_kj (theta_j - c_kj)^2."""

    a: np.ndarray  # [clients, dimensions]
    c: np.ndarray

    @property
    def best(self):
        return (self.a * self.c).sum(axis=0) / self.a.sum(axis=0)

    def gap(self, theta):
        return 0.5 * np.sum(self.a.mean(axis=0) * (theta - self.best) ** 2, axis=-1)

    def slopes(self, theta):
        """grad J_k of each client: [..., clients, dimensions]."""
        return self.a * (self.c - theta[..., None, :])


CENTRES = np.array([[1.0, 0.0], [-1.0, 0.5], [0.3, -1.0], [0.0, 1.0], [-0.5, -0.8], [0.9, 0.7]])
ALIKE = Quadratics(np.full((6, 2), 2.0), np.zeros((6, 2)))
SHIFTED = Quadratics(np.full((6, 2), 2.0), CENTRES)
BENT = Quadratics(np.array([[2.0, 0.3], [0.5, 2.0], [1.0, 1.0], [2.0, 2.0], [0.4, 0.4], [1.5, 0.6]]), CENTRES)
START = np.array([2.0, -1.5])


def posed(env_params, sigma, M, tau, T=60):
    """The constants on a box that no local step leaves, as every step pulls to c_k harder than the noise pushes outside.

    ||grad J_k|| and ||grad J_k - grad J|| are convex in theta, so that their largest values are at corners of the box.
    """
    reach = np.max(np.abs(env_params.c - env_params.best) + sigma / env_params.a, axis=0)
    reach = np.maximum(reach, np.abs(START - env_params.best))
    corners = env_params.best + reach * np.array(list(itertools.product((-1, 1), repeat=env_params.a.shape[1])))
    slopes = env_params.slopes(corners)
    G = np.sqrt(np.sum(slopes**2, axis=-1).max())
    apart = slopes - slopes.mean(axis=-2, keepdims=True)
    zeta = np.sqrt(np.sum(apart**2, axis=-1).mean(axis=-1).max())
    mu = env_params.a.mean(axis=0).min()
    problem = Problem(
        float(env_params.gap(START)), env_params.a.max(), mu, G, sigma, zeta, len(env_params.a), M, tau, T
    )
    return problem, reach


def play(env_params, problem, reach):
    """Algorithm 1 with noise of length sigma in an even direction; the gap of theta_0, ..., theta_T in each run."""
    rng = np.random.default_rng(problem.M * 100 + problem.tau)
    eta, theta = bound.eta(problem), np.tile(START, (RUNS, 1))
    gaps = [env_params.gap(theta)]
    for _ in range(problem.T):
        chosen = rng.permuted(np.tile(np.arange(problem.K), (RUNS, 1)), axis=1)[:, : problem.M]
        local = np.repeat(theta[:, None], problem.M, axis=1)
        for _ in range(problem.tau):
            noise = rng.normal(size=local.shape)
            noise *= problem.sigma / np.linalg.norm(noise, axis=-1, keepdims=True)
            slope = env_params.a[chosen] * (env_params.c[chosen] - local)
            assert np.linalg.norm(slope, axis=-1).max() <= problem.G * (1 + 1e-12)
            local = local + eta * (slope + noise)
        theta = local.mean(axis=1)
        assert (np.abs(theta - env_params.best) <= reach * (1 + 1e-12)).all()
        gaps.append(env_params.gap(theta))
    return np.array(gaps)


def with_error(values):
    """Mean over the runs, and its standard error."""
    return values.mean(), values.std(ddof=1) / len(values) ** 0.5


@pytest.mark.parametrize("env_params", [ALIKE, SHIFTED, BENT], ids=["alike", "shifted", "bent"])
@pytest.mark.parametrize(("M", "tau"), [(1, 1), (2, 3), (6, 1), (6, 8), (3, 20)])
@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_runs_stay_below_the_bound(env_params, M, tau, sigma):
    problem, reach = posed(env_params, sigma, M, tau)
    gaps = play(env_params, problem, reach)
    mean, error = with_error(gaps[:-1].mean(axis=0))
    assert mean + 4 * error <= bound.theorem_1(problem)
    mean, error = with_error(gaps[-1])
    assert mean + 4 * error <= bound.last_iterate(problem)
    assert gaps.max() <= bound.trivial(problem)
    if tau == 1:
        assert mean - 4 * error <= bound.one_step_floor(problem) + 1e-12  # which shifts meet with equality


@pytest.mark.parametrize("M", [1, 3, 6])
@pytest.mark.parametrize("sigma", [0.0, 0.7])
def test_the_floor_of_one_step_is_met_by_shifts(M, sigma):
    """J = -L/2 ||theta - mean of c||^2 and tau = 1: theta_{t+1} is the mean of M centres and M noises over L."""
    problem, reach = posed(SHIFTED, sigma, M, 1)
    assert problem.mu == problem.L
    mean, error = with_error(play(SHIFTED, problem, reach)[1:].mean(axis=0))
    wanted = bound.one_step_floor(problem)
    assert abs(mean - wanted) <= 4 * error + 1e-12
    assert error < 0.02 * max(wanted, 1e-9)
    assert wanted < bound.noise_floor(problem)


def test_by_hand():
    """gap 3, L 2, mu 1/2, G 1, sigma 2, zeta 3, 2 of 5 clients, 4 steps, 10 rounds."""
    problem = Problem(3.0, 2.0, 0.5, 1.0, 2.0, 3.0, K=5, M=2, tau=4, T=10)
    parts = bound.floor_parts(problem)
    np.testing.assert_allclose(parts, (5 / 2, 2 * 3 / 8 * 9, 9 / 32 * 5))  # 2 mu = 1
    np.testing.assert_allclose(bound.noise_floor(problem), 2.5 + 6.75 + 1.40625)
    np.testing.assert_allclose(bound.theorem_1(problem), 2 / (0.5 * 10) * 3 + 10.65625)
    kept = 0.75**10
    np.testing.assert_allclose(bound.last_iterate(problem), kept * 3 + (1 - kept) * 10.65625)
    np.testing.assert_allclose(bound.one_step_floor(problem._replace(tau=1)), 4 / 2 + 3 / 8 * 9)
    assert bound.eta(problem) == 1 / 8
    assert bound.trivial(problem) == 1.0


BASE = Problem(3.0, 2.0, 0.5, 1.0, 2.0, 3.0, K=10, M=3, tau=4, T=10)


def test_limits():
    assert bound.floor_parts(BASE._replace(tau=1)).drift == 0
    assert bound.floor_parts(BASE._replace(M=10)).sampling == 0
    assert bound.floor_parts(BASE._replace(zeta=0.0)).sampling == 0
    assert bound.floor_parts(BASE._replace(K=1, M=1)).sampling == 0
    np.testing.assert_allclose(bound.floor_parts(BASE._replace(tau=10**7)).drift, (1 + 4) / 2, rtol=1e-6)
    for value in (bound.theorem_1, bound.last_iterate):
        np.testing.assert_allclose(value(BASE._replace(T=10**9)), bound.noise_floor(BASE), rtol=1e-6)
    np.testing.assert_allclose(bound.finite_population(10**9, 4), 1 / 4)  # as with replacement
    assert bound.last_iterate(BASE._replace(L=0.5)) == bound.noise_floor(BASE)  # mu = L: one round


def test_finite_population_is_lemma_1():
    """All samples without replacement of M of five vectors."""
    x = np.array([[1.0, 0], [2, 5], [-3, 1], [0.5, 0.5], [4, -2]])
    one = np.mean(np.sum((x - x.mean(0)) ** 2, axis=1))
    for M in range(1, 6):
        means = np.array([x[list(S)].mean(0) for S in itertools.combinations(range(5), M)])
        variance = np.mean(np.sum((means - x.mean(0)) ** 2, axis=1))
        np.testing.assert_allclose(bound.finite_population(5, M) * one, variance, atol=1e-12)


def test_what_the_remark_says_vanishes_does_not():
    """M = K, tau = 1, zeta = 0, even without noise; and plain gradient ascent of such a problem is at its best at once."""
    problem, reach = posed(ALIKE, 0.0, 6, 1)
    assert problem.zeta == 0
    assert bound.noise_floor(problem) == problem.G**2 / (2 * problem.mu * 6) > 0.5
    assert play(ALIKE, problem, reach)[1:].max() < 1e-20
    assert bound.one_step_floor(problem) == 0


def test_where_the_theorem_says_nothing():
    """More than any policy is short of: one client a round always, the paper's M = 2 and tau = 3 from 0.385 on."""
    assert bound.noise_floor(BASE._replace(M=1, tau=1, sigma=0.0, zeta=0.0)) == bound.trivial(BASE)
    papers = BASE._replace(K=100, M=2, tau=3, zeta=0.0, G=1.0)
    assert bound.noise_floor(papers._replace(sigma=0.38**0.5)) < bound.trivial(papers)
    assert bound.noise_floor(papers._replace(sigma=0.39**0.5)) > bound.trivial(papers)


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(*[st.floats(0.1, 5.0)] * 5),
    st.floats(0.05, 1.0),
    st.integers(2, 50),
    st.integers(1, 30),
    st.integers(1, 500),
    st.data(),
)
def test_monotonicities(positive, conditioning, K, tau, T, data):
    gap, L, G, sigma, zeta = positive
    M = data.draw(st.integers(1, K - 1))
    problem = Problem(gap, L, conditioning * L, G, sigma, zeta, K, M, tau, T)
    here = bound.theorem_1(problem)
    for name in ("gap", "G", "sigma", "zeta"):
        assert bound.theorem_1(problem._replace(**{name: 1.1 * getattr(problem, name)})) > here
    assert bound.theorem_1(problem._replace(L=1.1 * L)) > here
    assert bound.theorem_1(problem._replace(mu=0.9 * problem.mu)) > here
    assert bound.theorem_1(problem._replace(M=M + 1)) < here
    assert bound.theorem_1(problem._replace(tau=tau + 1)) > here
    assert bound.theorem_1(problem._replace(T=T + 1)) < here
    assert bound.theorem_1(problem._replace(K=K + 1)) >= here
    assert bound.one_step_floor(problem._replace(tau=1)) < bound.noise_floor(problem)


def test_what_cannot_be_bounded_is_refused():
    with pytest.raises(ValueError, match="got M = 11, K = 10; lower M"):
        bound.theorem_1(BASE._replace(M=11))
    with pytest.raises(ValueError, match="0 < mu <= L.*mu=3.0"):
        bound.theorem_1(BASE._replace(mu=3.0))
    with pytest.raises(ValueError, match="nothing below zero"):
        bound.last_iterate(BASE._replace(sigma=-1.0))
    with pytest.raises(ValueError, match="tau = 1, got tau = 4"):
        bound.one_step_floor(BASE)
