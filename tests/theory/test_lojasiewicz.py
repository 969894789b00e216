"""mu of Labbi et al. 2025 against exact gradients and gaps of 300 random instances, and its lower bound in the ball."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.tabular import finite, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.theory import bit_level, lojasiewicz
from fedrl.theory.bit_level import best_objective, bit_discount, bit_level_mdp

INSTANCES, GAMMA = 300, 0.8


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def drawn(states: int, actions: int, seed: int = 0) -> tuple[MDP, np.ndarray]:
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.full(states, 0.3), (INSTANCES, states, actions))
    start = 0.9 * rng.dirichlet(np.ones(states), INSTANCES) + 0.1 / states
    mdps = MDP(*map(jnp.asarray, (kernel, rng.uniform(size=(INSTANCES, states, actions)), start)))
    theta = rng.normal(size=(INSTANCES, states, actions)) * rng.choice([0.1, 1.0, 4.0], (INSTANCES, 1, 1))
    return mdps, jnp.asarray(theta)


@pytest.mark.parametrize(("states", "actions"), [(2, 2), (4, 3)])
def test_s_fedpg_lemma_d9(states, actions):
    @jax.jit
    @jax.vmap
    def sides(mdp, theta):
        pi = jax.nn.softmax(theta)
        gap = jnp.dot(mdp.start, solvers.optimal(mdp, GAMMA)[1] - solvers.value(mdp, pi, GAMMA))
        slope = jnp.sum(solvers.policy_gradient(theta, mdp, GAMMA) ** 2)
        return slope, 2.0 * jnp.exp(lojasiewicz.log_mu_sm(mdp, pi, GAMMA)) * gap**2

    slope, bound = sides(*drawn(states, actions))
    assert np.all(slope >= bound)
    assert np.max(bound / slope) > 0.05  # the exact constant matters


@pytest.mark.parametrize(("states", "actions"), [(2, 2), (4, 3)])
@pytest.mark.parametrize("lam", [0.05, 1.0])
def test_rs_fedpg_lemma_e10(states, actions, lam):
    @jax.jit
    @jax.vmap
    def sides(mdp, theta):
        log_pi = jax.nn.log_softmax(theta)
        pi = jnp.exp(log_pi)
        now = solvers.value(bit_level.entropy_regularised(mdp, log_pi, lam), pi, GAMMA)
        gap = jnp.dot(mdp.start, solvers.soft_optimal(mdp, GAMMA, lam)[1] - now)
        slope = jnp.sum(solvers.policy_gradient(theta, mdp, GAMMA, lam) ** 2)
        return slope, 2.0 * jnp.exp(lojasiewicz.log_mu_r(mdp, pi, GAMMA, lam)) * gap, gap

    slope, bound, gap = sides(*drawn(states, actions))
    assert np.all(gap > -1e-12)
    assert np.all(slope >= bound)
    assert np.max(states * bound / slope) <= 1.0  # without the |S|, which the proof does not need
    assert np.max(bound / slope) > 0.005


def test_b_rs_fedpg_equation_67():
    """The inequality of J_b, with mu of the bit-level MDP."""
    lam = 0.3
    policy = bit_softmax()(finite.environment(3, 4, GAMMA))
    mdps, _ = drawn(3, 4)
    theta = 2.0 * jax.random.normal(jax.random.key(0), (INSTANCES, 3, 3, 2))

    @jax.jit
    @jax.vmap
    def sides(mdp, theta):
        gap = best_objective(policy, mdp, GAMMA, lam) - solvers.objective(policy, theta, mdp, GAMMA, lam)
        slope = jnp.sum(solvers.gradient(policy, theta, mdp, GAMMA, lam) ** 2)
        pi = jax.nn.softmax(theta.reshape(-1, 2))
        log_mu = lojasiewicz.log_mu_r(bit_level_mdp(mdp, GAMMA), pi, bit_discount(GAMMA, 2), lam)
        return slope, 2.0 * jnp.exp(log_mu) * gap, gap

    slope, bound, gap = sides(mdps, theta)
    assert np.all(gap > 0.0)
    assert np.all(slope >= bound)


@pytest.mark.parametrize(("actions", "k"), [(2, 1), (4, 2)])
def test_least_mu_in_the_ball(actions, k):
    """Lemmas E.20 and F.2, at corners of the ball too."""
    lam, states = 1.0, 3
    mdps, _ = drawn(states, actions)
    discount, radius = bit_discount(GAMMA, k), bit_level.projection_radius(lam, GAMMA, k)
    rng = np.random.default_rng(0)
    logits = radius * rng.uniform(-1, 1, (INSTANCES, states * (2**k - 1)))
    logits[::2] = radius * np.sign(logits[::2])
    theta = jnp.asarray(np.stack([logits, -logits], axis=-1))

    @jax.jit
    @jax.vmap
    def log_mu(mdp, theta):
        return lojasiewicz.log_mu_r(bit_level_mdp(mdp, GAMMA, k), jax.nn.softmax(theta), discount, lam)

    found = log_mu(mdps, theta) + math.log(2**k - 1)  # Lemma F.2 counts |S| for the bit-level states
    least = [
        lojasiewicz.least_log_mu(lam, GAMMA, states=states, least_start=float(start), k=k)
        for start in np.asarray(mdps.start).min(axis=1)
    ]
    assert np.all(found >= np.array(least))


def test_log_mu_on_synthetic():
    """The number the reproduction page quotes: gamma 0.99, lam 0.05, five states, four actions, a uniform start."""
    log_mu = lojasiewicz.least_log_mu(0.05, 0.99, states=5, least_start=0.2, k=2)
    assert log_mu / math.log(10.0) == pytest.approx(-14_350, abs=0.5)


def test_best_objective_is_not_exceeded_and_is_reached():
    """By gradient ascent on a bit-level table."""
    mdps, _ = drawn(3, 4)
    mdp = jax.tree.map(lambda x: x[0], mdps)
    policy = bit_softmax()(finite.environment(3, 4, GAMMA))

    def f(theta):
        return solvers.objective(policy, theta, mdp, GAMMA, 0.3)

    @jax.jit
    def ascended(theta):
        return jax.lax.scan(lambda x, _: (x + 0.5 * jax.grad(f)(x), None), theta, None, length=3000)[0]

    theta, best = jnp.zeros((3, 3, 2)), best_objective(policy, mdp, GAMMA, 0.3)
    end = ascended(theta)
    assert f(theta) < f(end) <= best + 1e-10
    np.testing.assert_allclose(f(end), best, rtol=1e-6)


def test_soft_optimum_by_value_iteration_and_its_limit():
    mdps, _ = drawn(4, 3)
    mdp = jax.tree.map(lambda x: x[0], mdps)
    pi, v = solvers.soft_optimal(mdp, GAMMA, 0.4)
    step = lambda v, _: (0.4 * jax.nn.logsumexp(solvers.lookahead(mdp, v, GAMMA) / 0.4, axis=-1), None)  # noqa: E731
    iterated, _ = jax.lax.scan(step, jnp.zeros(4), None, length=300)
    np.testing.assert_allclose(v, iterated, rtol=1e-12)
    np.testing.assert_allclose(pi, jax.nn.softmax(solvers.lookahead(mdp, v, GAMMA) / 0.4), rtol=1e-8)
    np.testing.assert_allclose(solvers.soft_optimal(mdp, GAMMA, 1e-5)[1], solvers.optimal(mdp, GAMMA)[1], rtol=1e-4)


def test_a_start_that_misses_a_state_is_refused():
    with pytest.raises(ValueError, match="every state must have a chance to be the first"):
        lojasiewicz.least_log_mu(0.1, 0.9, states=3, least_start=0.0)
