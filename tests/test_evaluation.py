"""What a measurement logs, by numbers computed by hand: worlds of one state, in which a policy earns what it draws."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import keys, train
from fedrl.algorithms.fedavg import pavg
from fedrl.core.round import update_server
from fedrl.environments.tabular import finite
from fedrl.environments.tabular.finite import MDP
from fedrl.evaluation import exact_return, sampled_return
from fedrl.federations.federation import Federation
from fedrl.selection.participation import everyone

GAMMA = 0.5
METHOD = pavg(eta=0.1, local_steps=1, horizon=1)


def bandits(weight=None) -> Federation:
    """Two clients, one state, two actions: the uniform policy earns 1 a step with the first and 3 with the second."""
    reward = jnp.asarray([[[0.0, 2.0]], [[2.0, 4.0]]])
    env_params = MDP(kernel=jnp.ones((2, 1, 2, 1)), reward=reward, start=jnp.ones((2, 1)))
    return Federation(finite.environment(1, 2, GAMMA), env_params, weight=weight)


@pytest.mark.parametrize(("weight", "mean"), [(None, 4.0), ((3.0, 1.0), 3.0), ((1.0, 3.0), 5.0)])
def test_the_logged_return_is_weighted_by_q(weight, mean):
    """J is 1 / (1 - gamma) = 2 and 6; before training the policy is uniform."""
    where = bandits(None if weight is None else jnp.asarray(weight))
    first = train(METHOD, where, rounds=1, evaluation=exact_return()).rows[0]
    np.testing.assert_allclose(first["returns"], [2.0, 6.0], rtol=1e-6)
    np.testing.assert_allclose(first["return"], mean, rtol=1e-6)
    np.testing.assert_allclose(first["worst"], 2.0, rtol=1e-6)


def test_a_sampled_return_is_weighted_by_q_as_well():
    where = bandits(jnp.asarray([3.0, 1.0]))
    look = sampled_return(2, horizon=1)(METHOD(where), where)
    asked = everyone()(where, None).choose((), keys.of_seed(0))
    server, seen = update_server(look, jnp.zeros(1), jnp.asarray([8.0, 4.0]), asked, keys.of_seed(0))
    np.testing.assert_allclose(seen["return"], 7.0)
    np.testing.assert_allclose(seen["returns"], [8.0, 4.0])
    np.testing.assert_array_equal(server, [0.0])
