"""The server side of FedSVRPG-M, Algorithm 1 of Wang et al. 2024."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.algorithms.momentum_anchor import theorem_batch
from fedrl.engines.fused import fused
from fedrl.environments.tabular import solvers
from fedrl.evaluation import exact_return


def play(**options):
    where = federation(3, gamma=0.5)
    algorithm = fedsvrpg_m(eta=0.1, local_steps=4, horizon=20, **options)(where)
    return where, algorithm, fused("map")(algorithm, where, exact_return()(algorithm, where), 1)


def test_u_0_is_the_mean_gradient():
    """A large first batch: u_0 is the exact gradient of J at theta_0, and theta has not moved."""
    where, algorithm, engine = play(beta=0.5, first_batch=50_000)
    state, metrics = engine.init([0])
    env_params = jax.tree.map(jnp.asarray, where.env_params)
    theta = state.server.theta[0]
    exact = jax.vmap(lambda mdp: solvers.gradient(algorithm.policy, theta, mdp, 0.5))(env_params).mean(axis=0)
    np.testing.assert_allclose(state.server.kept.u[0], exact, atol=0.01)
    np.testing.assert_array_equal(theta, 0.0)
    assert int(metrics["first/env_steps"][0]) == 3 * 50_000 * 20


def test_the_server_moves_by_lambda_u():
    """theta_{r+1} = theta_r + lambda u_{r+1} with lambda = server_step * eta * K, and theta_r is remembered."""
    _, _, engine = play(beta=0.5, server_step=0.7)
    before, _ = engine.init([0])
    after, _ = engine.advance(before, 0, 1)
    moved = after.server.theta - before.server.theta
    np.testing.assert_allclose(moved, 0.7 * 0.1 * 4 * after.server.kept.u, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(after.server.kept.theta_prev, before.server.theta)


def test_theorem_batch():
    assert theorem_batch(local_steps=32, rounds=16, beta=0.1) == 200
    assert theorem_batch(local_steps=32, rounds=64, beta=1.0) == 1


@pytest.mark.parametrize("beta", [0.0, -0.1, 1.5])
def test_beta_outside_its_range(beta):
    with pytest.raises(ValueError, match="beta must lie in"):
        fedsvrpg_m(beta=beta, eta=0.1, local_steps=1, horizon=2)
