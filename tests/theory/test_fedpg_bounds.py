"""Lemma 4.1 and the theorems of Labbi et al. 2025: against runs, against each other and against numbers by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.tabular import finite, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.policies.softmax import softmax_table
from fedrl.theory import fedpg_bounds, heterogeneity
from fedrl.theory.fedpg_bounds import Run, Terms
from fedrl.theory.fedpg_constants import bit_constants, softmax_constants
from fedrl.theory.lojasiewicz import least_log_mu, log_mu_r

INSTANCES, CLIENTS, STATES, ACTIONS, H = 300, 3, 3, 3, 5


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def drawn(seed: int = 0) -> tuple[MDP, np.ndarray, np.ndarray]:
    """Federations [n, clients], theta [n, S, A] and gamma [n]."""
    rng = np.random.default_rng(seed)
    shape = (INSTANCES, CLIENTS, STATES, ACTIONS)
    reward = np.repeat(rng.uniform(size=(INSTANCES, 1, STATES, ACTIONS)), CLIENTS, axis=1)
    start = np.repeat(0.8 * rng.dirichlet(np.ones(STATES), (INSTANCES, 1)) + 0.2 / STATES, CLIENTS, axis=1)
    mdps = MDP(*map(jnp.asarray, (rng.dirichlet(np.full(STATES, 0.3), shape), reward, start)))
    theta = rng.normal(size=(INSTANCES, STATES, ACTIONS)) * rng.choice([0.1, 1.0, 3.0], (INSTANCES, 1, 1))
    return mdps, jnp.asarray(theta), jnp.asarray(rng.uniform(0.1, 0.95, INSTANCES))


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_lemma_41_without_noise(lam, share):
    """A round of exact steps at the largest step that is allowed, on 300 federations; zeta is taken at theta^r."""
    policy = softmax_table()(finite.environment(STATES, ACTIONS, 0.5))
    mdps, theta, gamma = drawn()
    limits = [softmax_constants(float(g), lam=lam, actions=ACTIONS, horizon=1) for g in gamma]
    eta = np.array([share * min(c.L2**-1 / 6, c.L2 / (c.L3 * c.L1 * 32**0.5)) / H * (1 - 1e-9) for c in limits])

    @jax.jit
    @jax.vmap
    def round(mdps, theta, gamma, eta):
        def f(mdp, theta):
            return solvers.objective(policy, theta, mdp, gamma, lam)

        def client(mdp):
            step = lambda x, _: (x + eta * jax.grad(f, argnums=1)(mdp, x), None)  # noqa: E731
            return jax.lax.scan(step, theta, None, length=H)[0]

        def F(theta):
            return jnp.mean(jax.vmap(lambda mdp: f(mdp, theta))(mdps))

        rise = F(jnp.mean(jax.vmap(client)(mdps), axis=0)) - F(theta)
        zeta = heterogeneity.gradient_heterogeneity(policy, theta, mdps, gamma, lam)
        return rise, jnp.sum(jax.grad(F)(theta) ** 2), zeta

    rise, slope, zeta = round(mdps, theta, gamma, jnp.asarray(eta))
    still = {"sigma2": 0.0, "sigma4": 0.0, "log_beta": -math.inf}
    rows = zip(limits, zeta, slope, eta, strict=True)
    least = [
        fedpg_bounds.lemma_41(c._replace(zeta=float(z), **still), float(s), M=CLIENTS, eta=float(e), H=H)
        for c, z, s, e in rows
    ]
    assert np.all(rise >= np.array(least) - 1e-13)
    assert np.max(np.array(least) / rise) > 0.2  # a quarter is what the lemma keeps of the first order


def test_lemma_41_with_noise_and_bias():
    """Quadratics F = mean of -|theta - b_c|^2 / 2 with noise of known moments: L2 = 1, L3 = 0, sigma and beta exact."""
    rng = np.random.default_rng(0)
    M, eta, runs, d = 4, 1 / 6 / H, 200_000, 2
    centre, bias, theta = rng.normal(size=(M, 1, d)), 0.3 * np.ones(d) / d**0.5, np.array([0.4, -0.2])
    local = np.broadcast_to(theta, (M, runs, d))
    for _ in range(H):
        noise = 2.0 * rng.choice([-1.0, 1.0], (M, runs, d)) / d**0.5  # |noise| = 2 always
        local = local + eta * (centre - local + bias + noise)

    def F(x):
        return -0.5 * np.mean(np.sum((x - centre) ** 2, axis=-1), axis=0)

    found = F(local.mean(axis=0)) - F(theta[None])
    slope = centre.mean(axis=0)[0] - theta
    zeta = np.linalg.norm(centre - centre.mean(axis=0), axis=-1).max()
    limits = softmax_constants(0.5, horizon=1)._replace(
        L1=10.0, L2=1.0, L3=0.0, zeta=zeta, log_beta=math.log(0.3), sigma2=4.0, sigma4=16.0
    )
    least = fedpg_bounds.lemma_41(limits, float(slope @ slope), M=M, eta=eta, H=H)
    assert found.mean() - 4 * found.std() / runs**0.5 >= least


def test_lemma_41_refuses_long_steps():
    limits = softmax_constants(0.9, horizon=10)
    assert fedpg_bounds.ascends(limits, fedpg_bounds.largest_eta_H(limits), 1)
    with pytest.raises(ValueError, match="Lemma 4.1 needs eta H L2 <= 1/6"):
        fedpg_bounds.lemma_41(limits, 1.0, M=2, eta=0.02, H=5)


def test_theorem_e12_bounds_a_run_without_noise():
    """RS-FedPG by exact gradients on two different worlds of two states: every term that is left is needed."""
    gamma, lam, rounds, steps = 0.3, 1.0, 3000, 2
    mdps, _, _ = drawn()
    mdps = jax.tree.map(lambda x: x[0, :2, ..., :2] if x.ndim == 5 else x[0, :2], mdps)
    policy = softmax_table()(finite.environment(STATES, ACTIONS, gamma))
    kernel = jnp.asarray(np.random.default_rng(1).dirichlet(np.ones(STATES), (2, STATES, ACTIONS)))
    kernel = 0.9 * kernel[:1] + 0.1 * kernel
    mdps = mdps._replace(kernel=kernel)
    limits = softmax_constants(
        gamma, lam=lam, actions=ACTIONS, horizon=1, epsilon_p=float(heterogeneity.epsilon_p(mdps))
    )._replace(sigma2=0.0, sigma4=0.0, log_beta=-math.inf)
    eta = fedpg_bounds.largest_eta_H(limits) / steps
    best = np.mean([jnp.dot(m.start, solvers.soft_optimal(m, gamma, lam)[1]) for m in rows(mdps)])

    def gap(theta):
        return best - solvers.average_objective(policy, theta, mdps, gamma, lam)

    def round(theta, _):
        def client(mdp):
            step = lambda x, _: (x + eta * solvers.gradient(policy, x, mdp, gamma, lam), None)  # noqa: E731
            return jax.lax.scan(step, theta, None, length=steps)[0]

        log_mu = jnp.min(jax.vmap(lambda mdp: log_mu_r(mdp, jax.nn.softmax(theta), gamma, lam))(mdps))
        return jnp.mean(jax.vmap(client)(mdps), axis=0), (gap(theta), log_mu)

    first = jnp.asarray(np.random.default_rng(2).normal(size=(STATES, ACTIONS)))
    _, (gaps, log_mus) = jax.lax.scan(round, first, None, length=rounds)
    for R in (0, 10, 300, rounds - 1):
        run = Run(float(gaps[0]), 2, eta, steps, R)
        bound = fedpg_bounds.theorem_e12(limits, run, float(jnp.min(log_mus)))
        assert math.log(gaps[R]) <= bound.total
        assert (bound.noise, bound.truncation, bound.local) == (-math.inf, -math.inf, -math.inf)


def rows(mdps):
    return [jax.tree.map(lambda x, i=i: x[i], mdps) for i in range(mdps.start.shape[0])]


def test_lemma_d11_bounds_the_sequence():
    rng = np.random.default_rng(0)
    for _ in range(300):
        kappa, B, first = 10.0 ** rng.uniform((-3, -6, -3), (-1, -1, 0))
        w = first
        for r in range(200):
            assert w <= fedpg_bounds.lemma_d11(first, kappa, B, r) * (1 + 1e-12)
            w = w - kappa * w**2 + B


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("lam", "actions"), [(0.05, 4), (1.0, 2), (3.0, 4)])
def test_theorem_e21_is_e12_in_plain_numbers(gamma, lam, actions):
    """Every term is larger, by no more than three orders of magnitude; with 16 for 64 the bias would be smaller."""
    T = math.ceil(1 / (1 - gamma))
    limits = softmax_constants(gamma, lam=lam, actions=actions, horizon=T, batch=3, epsilon_p=0.2)
    allowed = (1 - gamma) ** 3 / (888 * (1 + lam * math.log(actions)))
    assert allowed <= fedpg_bounds.largest_eta_H(limits)
    run = Run(2.0, 7, allowed / 5, 5, 100)
    sharp = fedpg_bounds.theorem_e12(limits, run, -20.0)
    plain = fedpg_bounds.theorem_e21(run, -20.0, gamma, lam=lam, horizon=T, batch=3, epsilon_p=0.2, actions=actions)
    apart = np.array(plain) - np.array(sharp)
    assert np.all(apart >= -1e-9)
    assert np.all(apart[:4] < math.log(4.0))
    assert apart[3] < math.log(4.0)  # the printed 16 is a quarter of 64


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_theorem_42_is_d12_in_plain_numbers(gamma):
    T = math.ceil(4 / (1 - gamma) ** 2)
    limits = softmax_constants(gamma, horizon=T, batch=10, epsilon_p=0.2)
    assert fedpg_bounds.largest_eta_H(limits) == pytest.approx((1 - gamma) ** 3 / 592)
    run = Run(2.0, 10, fedpg_bounds.largest_eta_H(limits) / 5, 5, 100)
    sharp = fedpg_bounds.theorem_d12(limits, run, -3.0)
    plain = fedpg_bounds.theorem_42(run, -3.0, gamma, horizon=T, batch=10, epsilon_p=0.2)
    apart = np.array(plain) - np.array(sharp)
    assert np.all(apart >= -1e-9)
    assert np.all(apart < math.log(5.0))


def test_theorem_d12_by_hand():
    """All four of the roots and all four of the summands, at numbers that make them easy."""
    limits = softmax_constants(0.5, horizon=1)._replace(
        L2=1.0, L3=2.0, zeta=3.0, log_beta=math.log(0.5), sigma2=5.0, sigma4=7.0
    )
    run = Run(gap=1.0, M=2, eta=1 / 148, H=2, R=10)
    mu = 0.25
    got = np.exp(fedpg_bounds.theorem_d12(limits, run, math.log(mu)))
    local = run.eta**4 * 4.0 * 2 * 7.0
    by_hand = [
        1 / (1 + 10 * run.eta * 2 * mu / 4),
        (6 * run.eta * 5 / (2 * mu)) ** 0.5 + run.eta * 5 / 24,
        (2 * 9 / mu) ** 0.5 + 9 / 37,
        (8 * 0.25 / mu) ** 0.5 + 0.25 / 9,
        (16 * 12**3 * local / mu) ** 0.5 + 3 * 12**2 * local,
    ]
    np.testing.assert_allclose(got, by_hand)
    np.testing.assert_allclose(math.exp(Terms(*np.log(by_hand)).total), sum(by_hand))


def test_noise_falls_like_one_over_m_and_nothing_else_does():
    limits = softmax_constants(0.9, lam=0.3, actions=4, horizon=60, epsilon_p=0.1)
    eta = fedpg_bounds.largest_eta_H(limits) / 5
    one, many = (fedpg_bounds.theorem_e12(limits, Run(1.0, M, eta, 5, 10), -5.0) for M in (1, 64))
    assert one.noise - many.noise == pytest.approx(math.log(64))
    assert one._replace(noise=0.0) == many._replace(noise=0.0)
    alone = fedpg_bounds.theorem_e12(limits, Run(1.0, 1, eta, 1, 10), -5.0)
    assert alone.local == -math.inf  # no local steps, no price of them


@pytest.mark.parametrize("M", [1, 100])
def test_corollary_e14_reaches_epsilon(M):
    def at(T):
        return softmax_constants(0.5, lam=1.0, actions=2, horizon=T)

    plan = fedpg_bounds.corollary_e14(0.1, 1.0, M, -4.0, at)
    eta, H, R = (math.exp(x) for x in (plan.log_eta, plan.log_H, plan.log_rounds))
    bound = fedpg_bounds.theorem_e12(
        at(plan.horizon), Run(1.0, M, eta, max(1, math.floor(H)), math.ceil(R * H / math.floor(H))), -4.0
    )
    assert bound.total <= math.log(0.1)
    assert all(term <= math.log(0.1 / 5) + 1e-9 for term in bound)
    shorter = at(plan.horizon - 1)
    assert math.log(4.0) + 2 * shorter.log_beta + 4.0 > math.log(0.1 / 5)  # the least T


def test_speed_up_of_corollary_e14_ends():
    """Trajectories fall like 1/M, until the step is limited by something else."""

    def at(T):
        return softmax_constants(0.9, lam=0.3, actions=4, horizon=T)

    total = [fedpg_bounds.corollary_e14(0.01, 1.0, M, -5.0, at).log_trajectories for M in (1, 10, 10**6, 10**7)]
    assert total[0] - total[1] == pytest.approx(math.log(10))
    assert total[2] == total[3]


def test_corollary_f4_on_synthetic_is_out_of_reach():
    """log10 of the rounds that b-RS-FedPG needs by its own bound, on the paper's task: no overflow, no underflow."""
    log_mu = least_log_mu(0.05, 0.99, states=5, least_start=0.2, k=2)
    plan = fedpg_bounds.corollary_e14(0.1, 5.0, 50, log_mu, lambda T: bit_constants(0.99, 2, horizon=T, lam=0.05))
    assert plan.log_rounds / math.log(10) == pytest.approx(14_360, abs=2)
    assert plan.horizon > 1_000_000
    with pytest.raises(ValueError, match="heterogeneity alone leaves"):
        fedpg_bounds.corollary_e14(
            0.1, 5.0, 50, log_mu, lambda T: bit_constants(0.99, 2, horizon=T, lam=0.05, epsilon_p=0.3)
        )


def test_steps_of_the_figures_are_far_too_long():
    """Synthetic at gamma 0.99: eta H of Figures 1 and 7 is 0.05 to 1.25."""
    sm = softmax_constants(0.99, horizon=20)
    rs = softmax_constants(0.99, lam=0.05, actions=4, horizon=20)
    bits = bit_constants(0.99, 2, lam=0.05, horizon=20)
    found = [fedpg_bounds.largest_eta_H(one) for one in (sm, rs, bits)]
    np.testing.assert_allclose(found, [1.69e-9, 1.54e-9, 2.0e-10], rtol=0.02)
    with pytest.raises(ValueError, match="they say nothing of longer steps"):
        fedpg_bounds.theorem_e12(rs, Run(1.0, 2, 0.01, 5, 10), -5.0)
    with pytest.raises(ValueError, match="Theorem 4.2 needs"):
        fedpg_bounds.theorem_42(Run(1.0, 2, 0.01, 5, 10), -5.0, 0.99, horizon=20, batch=20, epsilon_p=0.0)
    with pytest.raises(ValueError, match="Theorem E.21 needs"):
        fedpg_bounds.theorem_e21(Run(1.0, 2, 0.01, 5, 10), -5.0, 0.99, lam=0.05, horizon=20, batch=20, epsilon_p=0.0)
