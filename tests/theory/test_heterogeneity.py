import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl import keys
from fedrl.environments import counter_examples, finite, random_mdp, solvers
from fedrl.policies.softmax import softmax_table
from fedrl.theory import heterogeneity


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def population(seed, kappa=1.0, clients=4):
    return jax.vmap(random_mdp.sparse(3, 2, kappa), (None, 0))(keys.of_seed(seed), jnp.arange(clients))


def test_level_of_heterogeneity_on_random_worlds():
    @jax.jit
    def measured(seed, weight):
        worlds = population(seed)
        pairs = heterogeneity.kappa_pairs(worlds)
        pi = jax.random.dirichlet(keys.of(keys.of_seed(seed), "pi"), jnp.ones(2), (50, 3))
        chains = jnp.einsum("psa,nsat->pnst", pi, worlds.kernel)
        apart = jnp.max(jnp.sum(jnp.abs(chains[:, :, None] - chains[:, None, :]), axis=-1), axis=(0, 3))
        return pairs, apart, heterogeneity.kappa_1(worlds, weight), heterogeneity.kappa_2(worlds, weight)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**31 - 1), st.lists(st.floats(0.1, 1.0), min_size=4, max_size=4))
    def check(seed, raw):
        weight = np.array(raw) / np.sum(raw)
        pairs, apart, kappa_1, kappa_2 = measured(seed, jnp.asarray(weight))
        np.testing.assert_array_equal(pairs, pairs.T)
        assert (jnp.diag(pairs) == 0.0).all()
        assert (pairs <= 2.0 + 1e-12).all()
        assert (apart <= pairs + 1e-12).all()  # no stochastic policy drives the rows further apart
        assert kappa_1 <= kappa_2 + 1e-12
        np.testing.assert_allclose(kappa_2, weight @ np.asarray(pairs) @ weight, rtol=1e-12)

    check()


def test_by_hand_on_lemma_b1():
    worlds = counter_examples.lemma_b1()  # one (s, a) leads to different states with certainty
    np.testing.assert_array_equal(heterogeneity.kappa_pairs(worlds), [[0.0, 2.0], [2.0, 0.0]])
    assert heterogeneity.epsilon_p(worlds) == 2.0
    np.testing.assert_allclose(heterogeneity.kappa_imaginary(worlds), [1.0, 1.0])
    np.testing.assert_allclose(heterogeneity.kappa_1(worlds), 1.0)
    np.testing.assert_allclose(heterogeneity.kappa_2(worlds), 1.0)
    skewed = jnp.array([0.9, 0.1])
    np.testing.assert_allclose(heterogeneity.kappa_imaginary(worlds, skewed), [0.2, 1.8], rtol=1e-12)
    np.testing.assert_allclose(heterogeneity.kappa_1(worlds, skewed), 0.36, rtol=1e-12)


def test_equal_worlds_have_no_heterogeneity():
    worlds = population(0, kappa=0.0)
    policy = softmax_table()(finite.environment(3, 2, 0.9))
    theta = jax.random.normal(keys.of_seed(1), (3, 2))
    assert heterogeneity.epsilon_p(worlds) == 0.0
    np.testing.assert_allclose(heterogeneity.kappa_1(worlds), 0.0, atol=1e-15)
    assert heterogeneity.kappa_2(worlds) == 0.0
    np.testing.assert_allclose(heterogeneity.gradient_heterogeneity(policy, theta, worlds, 0.9), 0.0, atol=1e-12)


def test_gradient_heterogeneity_is_the_largest_distance_and_below_its_bound():
    gamma, lam = 0.5, 0.1
    worlds = population(2, kappa=0.3)
    policy = softmax_table()(finite.environment(3, 2, gamma))
    theta = jax.random.normal(keys.of_seed(1), (3, 2))
    each = [solvers.policy_gradient(theta, jax.tree.map(lambda x, i=i: x[i], worlds), gamma, lam) for i in range(4)]
    mean = sum(each) / 4
    expected = max(float(jnp.linalg.norm(g - mean)) for g in each)
    measured = heterogeneity.gradient_heterogeneity(policy, theta, worlds, gamma, lam)
    np.testing.assert_allclose(measured, expected, rtol=1e-10)
    # Labbi et al. 2025, Lemma E: zeta_r^2 = 38 (1 + lam log A)^2 epsilon_P^2 / (1 - gamma)^6
    bound = np.sqrt(38) * (1 + lam * np.log(2)) * heterogeneity.epsilon_p(worlds) / (1 - gamma) ** 3
    assert 0.0 < measured <= bound
