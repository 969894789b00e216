"""Theorems 6.4 and 6.5 of `wang2024` by hand and in their limits; what a fixed step leaves of client drift."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import random_mdps

from fedrl.algorithms.momentum_anchor import theorem_batch
from fedrl.environments.tabular import solvers
from fedrl.theory import momentum_bounds as bounds
from fedrl.theory.momentum_bounds import Problem

PROBLEM = Problem(H=2, gamma=0.5, reward=1.0, sigma=2.0, gap=0.5, G_0=0.3, W=1.0, G=1.0, M=0.5)
THEOREMS = (bounds.theorem_c4, bounds.theorem_d4)


def test_constants_by_hand():
    it = bounds.constants(PROBLEM)
    assert (it.L, it.L_g, it.C_g, it.C_w) == (10.0, 2.0, 4.0, 18.0)
    squares = (100 + 24 * 18 * 16 + 6 * 4, 4 + 2 * 18 * 16, 2 * 18 * 16 + 2 * 4, (4 + 0.25) / 0.5**4)
    np.testing.assert_allclose((it.L_1, it.L_2, it.L_3, it.L_4), np.sqrt(squares))
    assert bounds.theorem_c4(PROBLEM).smooth == it.L_1
    assert bounds.theorem_d4(PROBLEM).smooth == pytest.approx(math.sqrt(2 * 100 + 4 * it.L_4**2))


def test_constants_of_softmax_tables_bound_what_they_should():
    """G and M over random policies; L against differences of exact gradients, of which J has no sharper ones to show."""
    rng, theta = np.random.default_rng(0), []
    for logits in 4.0 * rng.normal(size=(200, 5)):
        pi = np.exp(logits) / np.exp(logits).sum()
        assert np.linalg.norm(np.eye(5) - pi, axis=1).max() <= bounds.GRADIENT_SOFTMAX
        assert np.linalg.eigvalsh(np.diag(pi) - np.outer(pi, pi)).max() <= bounds.HESSIAN_SOFTMAX + 1e-12
    L = bounds.constants(PROBLEM._replace(H=40, G=bounds.GRADIENT_SOFTMAX)).L  # so long that J_H is J
    mdp = jax.tree.map(lambda x: x[0], random_mdps(1))
    for _ in range(5):
        theta = rng.normal(size=(2, 4, 3)).astype(np.float32)
        one, two = (solvers.policy_gradient(jnp.asarray(it), mdp, 0.5) for it in theta)
        assert np.linalg.norm(one - two) <= L * np.linalg.norm(theta[0] - theta[1])


def test_assumption_63_fails_for_softmax_policies():
    """One state, two actions: E w^2 = sum of p_1^2 / p_2, for a fixed theta_1 and theta_2 further and further away."""
    second_moments = [0.5**2 / p + 0.5**2 / (1 - p) for p in (1 / (1 + np.exp(x)) for x in (5.0, 10.0, 20.0))]
    assert second_moments[0] > 37
    assert second_moments[2] > 1e8


def test_parameters_by_hand():
    theorem = bounds.theorem_c4(PROBLEM)
    assert bounds.beta(theorem, PROBLEM, N=2, K=4, R=10) == 1.0
    many = bounds.beta(theorem, PROBLEM, N=2, K=4, R=10**6)
    assert many == pytest.approx((8 * theorem.smooth**2 * 0.25 / (16 * 1e12)) ** (1 / 3))
    assert bounds.beta(theorem, PROBLEM, N=16, K=4, R=10**6) == pytest.approx(2 * many)
    assert bounds.beta(theorem, PROBLEM, N=2, K=4, R=8 * 10**6) == pytest.approx(many / 4)
    assert bounds.server_step(theorem, 1.0, N=10**6, K=4) == pytest.approx(1 / 240)
    assert bounds.server_step(theorem, 0.01, N=2, K=4) == pytest.approx(
        min(1 / 240, math.sqrt(0.08 / 162) / theorem.smooth)
    )
    hessian = bounds.theorem_d4(PROBLEM)
    assert bounds.server_step(hessian, 1.0, N=10**6, K=4) == pytest.approx(1 / (24 * hessian.smooth))
    assert bounds.server_step(hessian, 1e-6, N=2, K=4) == pytest.approx(math.sqrt(8e-6 / 72) / hessian.smooth)
    for beta in (0.1, 0.3):
        assert bounds.first_batch(beta, K=32, R=16) == theorem_batch(local_steps=32, rounds=16, beta=beta)


@pytest.mark.parametrize("theorem", THEOREMS)
def test_eta_is_the_largest_that_the_lemmas_admit(theorem):
    it = theorem(PROBLEM)
    for N, K, R in ((2, 4, 10), (20, 32, 10**4), (1, 8, 10**8)):
        beta = bounds.beta(it, PROBLEM, N=N, K=K, R=R)
        step = bounds.server_step(it, beta, N=N, K=K)
        eta = bounds.admissible_eta(it, beta, step, N=N, K=K, R=R)
        assert bounds.admissible(it, eta, beta, step, N=N, K=K, R=R)
        assert not bounds.admissible(it, 1.001 * eta, beta, step, N=N, K=K, R=R)


def test_the_printed_eta_does_not_imply_lemma_c3():
    """Its condition is eta K L_1 of order beta; the printed one is (beta / N)^(1/2), which is larger for small beta."""
    it, sizes = bounds.theorem_c4(PROBLEM), {"N": 1, "K": 1, "R": 10**9}
    beta = bounds.beta(it, PROBLEM, **sizes)
    step = bounds.server_step(it, beta, N=1, K=1)
    near = PROBLEM._replace(G_0=1e-12)  # so that the first part of the minimum is not the least
    printed = bounds.printed_eta(it, near, beta, step, **sizes)
    assert printed * it.smooth == pytest.approx(math.sqrt(beta))
    assert bounds.admissible_eta(it, beta, step, **sizes) * it.smooth < beta < 1e-2 * math.sqrt(beta)


@pytest.mark.parametrize("theorem", THEOREMS)
def test_rates_and_their_inverse(theorem):
    it, huge = theorem(PROBLEM), {"N": 4, "K": 2, "R": 10**12}
    noise = bounds.rate(it, PROBLEM._replace(sigma=1e6), **huge)
    for more in ({"N": 32}, {"K": 16}, {"R": 8 * 10**12}):
        assert bounds.rate(it, PROBLEM._replace(sigma=1e6), **(huge | more)) == pytest.approx(noise / 4, rel=1e-3)
    assert bounds.rate(it, PROBLEM._replace(sigma=0.0), **huge) == pytest.approx(it.smooth * 0.5 / 1e12)
    needed = bounds.complexity(it, PROBLEM, 1e-6, N=4)
    K = needed.episodes / needed.rounds
    assert bounds.rate(it, PROBLEM, N=4, K=K, R=needed.rounds) == pytest.approx(1e-6)
    finer = bounds.complexity(it, PROBLEM, 1e-8, N=8)
    assert finer.rounds == pytest.approx(100 * needed.rounds)
    assert finer.episodes == pytest.approx(1000 * needed.episodes / 2)


@pytest.mark.parametrize("theorem", THEOREMS)
def test_the_bound_falls_as_the_rate_says(theorem):
    """With the theorem's parameters, and eta small enough: by 8^(2/3) where noise rules, and never below the drift."""
    it = theorem(PROBLEM)

    def bounded(R: int, eta: float) -> float:
        beta = bounds.beta(it, PROBLEM, N=2, K=4, R=R)
        step = bounds.server_step(it, beta, N=2, K=4)
        B = bounds.first_batch(beta, K=4, R=R)
        return bounds.bound(it, PROBLEM, eta=eta, beta=beta, step=step, B=B, N=2, K=4, R=R)

    assert bounded(8 * 10**9, 0.0) == pytest.approx(bounded(10**9, 0.0) / 4, rel=0.05)
    assert bounded(10**15, 1e-4) == pytest.approx(273 / 7 * (math.e * 4e-4 * it.drift) ** 2 * 0.3, rel=0.1)


# Noise-free quadratics J_i(theta) = -1/2 (theta - c_i)^T A_i (theta - c_i), whose gradients are exact
RNG = np.random.default_rng(1)
A = np.stack([np.diag(row) for row in RNG.uniform(0.3, 2.0, (3, 4))])
C = RNG.normal(size=(3, 4))
BEST = np.linalg.solve(A.sum(axis=0), np.einsum("nij,nj->i", A, C))
K = 8


def gradients(theta: np.ndarray) -> np.ndarray:
    """grad J_i at theta [d], or at theta_i [n, d]."""
    return np.einsum("nij,nj->ni", A, C - theta)


def fedsvrpg_m(eta: float, beta: float, rounds: int = 4000) -> np.ndarray:
    """Algorithm 1 with exact gradients, where w g(theta_{r-1}) is grad J_i(theta_{r-1}); lambda = eta K; beta = 1: PAvg."""
    theta = prev = np.zeros(4)
    u = gradients(theta).mean(axis=0)
    for _ in range(rounds):
        local, before = np.tile(theta, (3, 1)), gradients(prev)
        for _ in range(K):
            g = gradients(local)
            local = local + eta * (beta * g + (1.0 - beta) * (u + g - before))
        u = (local - theta).mean(axis=0) / (eta * K)
        prev, theta = theta, theta + eta * K * u
    return theta


def scaffold(eta: float, rounds: int = 4000) -> np.ndarray:
    """Karimireddy et al. 2020, Algorithm 1, option II, with exact gradients and a server step of one."""
    theta, own, common = np.zeros(4), np.zeros((3, 4)), np.zeros(4)
    for _ in range(rounds):
        local = np.tile(theta, (3, 1))
        for _ in range(K):
            local = local + eta * (gradients(local) - own + common)
        own = own - common + (local - theta) / (eta * K)
        theta, common = local.mean(axis=0), own.mean(axis=0)
    return theta


def squared_gradient(theta: np.ndarray) -> float:
    return float(np.sum(gradients(theta).mean(axis=0) ** 2))


def test_at_a_fixed_eta_momentum_ends_where_pavg_ends():
    """Every beta has PAvg's fixed point, which is not the optimum; SCAFFOLD's is."""
    plain = fedsvrpg_m(0.05, 1.0)
    assert squared_gradient(plain) > 4e-4
    for beta in (0.5, 0.2, 0.05):
        np.testing.assert_allclose(fedsvrpg_m(0.05, beta), plain, atol=1e-9)
    assert squared_gradient(scaffold(0.05)) < 1e-28
    np.testing.assert_allclose(scaffold(0.05), BEST, atol=1e-12)


@pytest.mark.parametrize("beta", [1.0, 0.2])
def test_the_bias_falls_with_the_square_of_eta(beta):
    large, small = (squared_gradient(fedsvrpg_m(eta, beta, rounds=20_000)) for eta in (0.008, 0.004))
    assert large / small == pytest.approx(4.0, rel=0.1)
