import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import keys
from fedrl.environments import finite, random_mdp, solvers
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.theory import bit_level


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("actions", "k"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
@pytest.mark.parametrize("lam", [0.0, 0.4])
def test_values_agree_proposition_f1(actions, k, lam):
    gamma, states = 0.9, 3
    mdp = random_mdp.sparse(states, actions)(keys.of_seed(actions), 0)
    policy = bit_softmax()(finite.environment(states, actions, gamma))
    assert policy.decisions == k
    theta = jax.random.normal(keys.of_seed(1), (states, 2**k - 1, 2))

    bits = finite.check(bit_level.bit_level_mdp(mdp, gamma))
    assert bits.kernel.shape == (states * (2**k - 1), 2, states * (2**k - 1))
    log_pi = jax.nn.log_softmax(theta).reshape(-1, 2)
    regularised = bit_level.entropy_regularised(bits, log_pi, lam)
    v = solvers.value(regularised, jnp.exp(log_pi), bit_level.bit_discount(gamma, k))
    empty_word = v.reshape(states, -1)[:, 0]

    from_each = jax.vmap(lambda rho: solvers.objective(policy, theta, mdp._replace(start=rho), gamma, lam))
    np.testing.assert_allclose(empty_word, from_each(jnp.eye(states)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(jnp.dot(bits.start, v), solvers.objective(policy, theta, mdp, gamma, lam), rtol=1e-10)


def test_one_bit_gives_back_the_mdp():
    mdp = random_mdp.dense(3, 2, 0.0)(keys.of_seed(0), 0)
    for same, original in zip(bit_level.bit_level_mdp(mdp, 0.9), mdp, strict=True):
        np.testing.assert_array_equal(same, original)


def test_two_bits_by_hand():
    mdp = random_mdp.dense(1, 3, 0.0)(keys.of_seed(0), 0)  # one state: only the words move
    bits = bit_level.bit_level_mdp(mdp, 0.81)
    # nodes: empty, 0, 1. From the empty word to the word chosen, from either word back to the empty one.
    np.testing.assert_array_equal(bits.kernel[0], [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(bits.kernel[1], [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(bits.kernel[2], [[1, 0, 0], [1, 0, 0]])
    r = np.asarray(mdp.reward[0])
    np.testing.assert_allclose(bits.reward, [[0, 0], [r[0] / 0.9, r[1] / 0.9], [r[2] / 0.9, r[2] / 0.9]], rtol=1e-12)
    np.testing.assert_array_equal(bits.start, [1, 0, 0])


def test_too_few_bits_are_refused():
    mdp = random_mdp.dense(2, 5, 0.0)(keys.of_seed(0), 0)
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
    mdp = random_mdp.dense(3, 2, 0.0)(keys.of_seed(4), 0)
    radius = bit_level.projection_radius(lam, gamma)
    sign = jnp.array([1.0, -1.0, 1.0])[:, None]
    theta = 1.01 * radius * sign * jnp.array([[1.0, -1.0]])
    gradient = solvers.policy_gradient(theta, mdp, gamma, lam)
    assert (jnp.sum(gradient * theta, axis=-1) < 0.0).all()
    free = solvers.policy_gradient(theta, mdp, gamma)  # without regularisation some state wants to go further out
    assert (jnp.sum(free * theta, axis=-1) > 0.0).any()
