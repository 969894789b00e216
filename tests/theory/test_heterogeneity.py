import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.environments.tabular import finite, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.policies.softmax import softmax_table
from fedrl.theory import counter_examples, heterogeneity


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def population(seed, kappa=1.0):
    """Four worlds, each a mixture of a common and an own kernel."""
    rng = np.random.default_rng(seed)
    kernel = kappa * rng.dirichlet(np.full(3, 0.3), (4, 3, 2)) + (1 - kappa) * rng.dirichlet(np.ones(3), (3, 2))
    reward = np.broadcast_to(rng.uniform(size=(3, 2)), (4, 3, 2))
    return MDP(jnp.asarray(kernel), jnp.asarray(reward), jnp.asarray(np.full((4, 3), 1 / 3)))


@jax.jit
def levels(env_params, weight):
    return (
        heterogeneity.kappa_pairs(env_params),
        heterogeneity.kappa_1(env_params, weight),
        heterogeneity.kappa_2(env_params, weight),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31 - 1), st.lists(st.floats(0.1, 1.0), min_size=4, max_size=4))
def test_level_of_heterogeneity_on_random_mdps(seed, raw):
    env_params = population(seed)
    weight = np.array(raw) / np.sum(raw)
    pairs, kappa_1, kappa_2 = (np.asarray(x) for x in levels(env_params, jnp.asarray(weight)))
    np.testing.assert_array_equal(pairs, pairs.T)
    assert (np.diag(pairs) == 0.0).all()
    assert (pairs <= 2.0 + 1e-12).all()
    assert kappa_1 <= kappa_2 + 1e-12
    np.testing.assert_allclose(kappa_2, weight @ pairs @ weight, rtol=1e-12)
    # no stochastic policy drives the rows of P^pi further apart than the worst action does
    pi = np.random.default_rng(seed + 1).dirichlet(np.ones(2), (50, 3))
    chains = np.einsum("psa,nsat->pnst", pi, env_params.kernel)
    apart = np.abs(chains[:, :, None] - chains[:, None]).sum(-1).max(axis=(0, 3))
    assert (apart <= pairs + 1e-12).all()


def test_by_hand_on_lemma_b1():
    env_params = counter_examples.lemma_b1()  # one (s, a) leads to different states with certainty
    pairs, kappa_1, kappa_2 = levels(env_params, jnp.array([0.5, 0.5]))
    np.testing.assert_array_equal(pairs, [[0.0, 2.0], [2.0, 0.0]])
    np.testing.assert_allclose([kappa_1, kappa_2], [1.0, 1.0])
    assert heterogeneity.epsilon_p(env_params) == 2.0
    np.testing.assert_allclose(heterogeneity.kappa_1(env_params), 1.0)  # equal weights are the default
    np.testing.assert_allclose(heterogeneity.kappa_2(env_params), 1.0)
    skewed = jnp.array([0.9, 0.1])
    np.testing.assert_allclose(heterogeneity.kappa_imaginary(env_params, skewed), [0.2, 1.8], rtol=1e-12)
    np.testing.assert_allclose(levels(env_params, skewed)[1], 0.9 * 0.2 + 0.1 * 1.8, rtol=1e-12)


def test_equal_worlds_have_no_heterogeneity():
    env_params = population(0, kappa=0.0)
    pairs, kappa_1, kappa_2 = levels(env_params, jnp.full(4, 0.25))
    assert (pairs == 0.0).all()
    np.testing.assert_allclose([kappa_1, kappa_2], 0.0, atol=1e-15)
    np.testing.assert_allclose(zeta(env_params, 0.5, 0.1), 0.0, atol=1e-12)


THETA = np.random.default_rng(1).normal(size=(3, 2))


@jax.jit
def zeta(env_params, gamma, lam):
    policy = softmax_table()(finite.environment(3, 2, 0.5))
    return heterogeneity.gradient_heterogeneity(policy, jnp.asarray(THETA), env_params, gamma, lam)


def test_gradient_heterogeneity_is_the_largest_distance_and_below_its_bound():
    gamma, lam = 0.5, 0.1
    env_params = population(2, kappa=0.3)
    theorem = jax.jit(jax.vmap(lambda mdp: solvers.policy_gradient(jnp.asarray(THETA), mdp, gamma, lam)))
    each = np.asarray(theorem(env_params))
    expected = np.linalg.norm((each - each.mean(0)).reshape(4, -1), axis=1).max()
    measured = zeta(env_params, gamma, lam)
    np.testing.assert_allclose(measured, expected, rtol=1e-10)
    # Labbi et al. 2025, App. E: zeta_r^2 = 38 (1 + lam log A)^2 epsilon_P^2 / (1 - gamma)^6
    epsilon = levels(env_params, jnp.full(4, 0.25))[0].max()
    assert 0.0 < measured <= np.sqrt(38) * (1 + lam * np.log(2)) * epsilon / (1 - gamma) ** 3
