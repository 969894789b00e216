import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.tabular import finite, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.theory import bit_level


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def drawn(states, actions):
    rng = np.random.default_rng(actions)
    kernel = rng.dirichlet(np.full(states, 0.4), (states, actions))
    mdp = MDP(kernel, rng.uniform(size=(states, actions)), rng.dirichlet(np.ones(states)))
    return jax.tree.map(jnp.asarray, mdp)


@pytest.mark.parametrize(("actions", "k"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_values_agree_proposition_f1(actions, k):
    gamma, states = 0.9, 3
    mdp = drawn(states, actions)
    policy = bit_softmax()(finite.environment(states, actions, gamma))
    assert policy.decisions == k
    theta = jnp.asarray(np.random.default_rng(1).normal(size=(states, 2**k - 1, 2)))

    @jax.jit
    def both(lam):
        bits = bit_level.bit_level_mdp(mdp, gamma)
        log_pi = jax.nn.log_softmax(theta).reshape(-1, 2)
        regularised = bit_level.entropy_regularised(bits, log_pi, lam)
        v = solvers.value(regularised, jnp.exp(log_pi), bit_level.bit_discount(gamma, k))
        from_each = jax.vmap(lambda rho: solvers.objective(policy, theta, mdp._replace(start=rho), gamma, lam))
        return bits, v, from_each(jnp.eye(states))

    for lam in (0.0, 0.4):
        bits, v, original = both(lam)
        assert finite.check(bits).kernel.shape == (states * (2**k - 1), 2, states * (2**k - 1))
        np.testing.assert_allclose(np.reshape(v, (states, -1))[:, 0], original, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(np.dot(bits.start, v), np.dot(mdp.start, original), rtol=1e-10)


def test_one_bit_gives_back_the_mdp():
    mdp = drawn(3, 2)
    for same, original in zip(bit_level.bit_level_mdp(mdp, 0.9), mdp, strict=True):
        np.testing.assert_array_equal(same, original)


def test_two_bits_by_hand():
    mdp = drawn(1, 3)  # one state: only the words move
    bits = jax.jit(lambda: bit_level.bit_level_mdp(mdp, 0.81))()
    # nodes: empty, 0, 1. From the empty word to the word chosen, from either word back to the empty one.
    np.testing.assert_array_equal(bits.kernel[0], [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(bits.kernel[1], [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(bits.kernel[2], [[1, 0, 0], [1, 0, 0]])
    r = np.asarray(mdp.reward[0])
    np.testing.assert_allclose(bits.reward, [[0, 0], [r[0] / 0.9, r[1] / 0.9], [r[2] / 0.9, r[2] / 0.9]], rtol=1e-12)
    np.testing.assert_array_equal(bits.start, [1, 0, 0])


def test_too_few_bits_are_refused():
    mdp = drawn(2, 5)
    with pytest.raises(ValueError, match=r"2 bits name 4 actions but the MDP has 5; use k >= 3"):
        bit_level.bit_level_mdp(mdp, 0.9, k=2)


def test_projection_radius():
    np.testing.assert_allclose(bit_level.projection_radius(1.0, 0.5), (1 + np.log(2)) / 0.5, rtol=1e-14)
    two_bits = bit_level.projection_radius(0.05, 0.81, k=2)
    np.testing.assert_allclose(two_bits, (1 + 0.05 * np.log(2)) / (0.05 * 0.1), rtol=1e-12)
    with pytest.raises(ValueError, match="lam > 0, got 0"):
        bit_level.projection_radius(0.0, 0.9)


def test_gradient_points_inwards_outside_the_radius_lemma_e17():
    gamma, lam = 0.6, 0.5
    mdp = drawn(3, 2)
    radius = bit_level.projection_radius(lam, gamma)
    sign = jnp.array([1.0, -1.0, 1.0])[:, None]
    theta = 1.01 * radius * sign * jnp.array([[1.0, -1.0]])
    gradient_at = jax.jit(lambda lam: solvers.policy_gradient(theta, mdp, gamma, lam))
    gradient = gradient_at(lam)
    assert (jnp.sum(gradient * theta, axis=-1) < 0.0).all()
    free = gradient_at(0.0)  # without regularisation some state wants to go further out
    assert (jnp.sum(free * theta, axis=-1) > 0.0).any()
