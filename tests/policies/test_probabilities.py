import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import environment

from fedrl.environments.control import cart_pole
from fedrl.environments.tabular import solvers
from fedrl.keys import of_seed
from fedrl.policies.probabilities import probability_table

THETA = jnp.array([[0.2, 0.8, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])


def test_parameters_are_the_probabilities():
    policy = probability_table()(environment())
    np.testing.assert_allclose(solvers.probabilities(policy, THETA), THETA, atol=1e-7)
    np.testing.assert_array_equal(policy.log_probs(THETA, jnp.array(0), jnp.array(1)), jnp.log(THETA[0, 1:2]))
    np.testing.assert_allclose(policy.init(of_seed(0)), 1 / 3)


def test_actions_come_with_their_probabilities():
    policy = probability_table()(environment())
    prepared = policy.prepare(THETA)
    noise = policy.noise(of_seed(1), (20_000,))
    for state in range(4):
        drawn = jax.vmap(lambda u, state=state: policy.sample(prepared, state, u))(noise)
        share = np.bincount(drawn, minlength=3) / 20_000
        np.testing.assert_allclose(share, THETA[state], atol=0.015)
        assert (share[np.asarray(THETA[state]) == 0.0] == 0.0).all()


def test_an_impossible_action_is_never_drawn():
    """Thirds of float32 do not add up to one; the largest uniform number must still not reach the last action."""
    third = jnp.full(3, 1 / 3, jnp.float32) * (1 - 1e-6)
    policy = probability_table()(environment(1, 4))
    prepared = policy.prepare(jnp.concatenate([third, jnp.zeros(1)])[None])
    assert policy.sample(prepared, 0, jnp.float32(1 - 2**-24)) == 2


def test_a_table_wants_finite_spaces():
    with pytest.raises(ValueError, match="a table needs finite observations and actions"):
        probability_table()(cart_pole.environment())
