"""The exact gradient against finite differences and against the estimator it is the mean of; bias, drift and noise apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import keys, train
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.fedpg import rs_fedpg
from fedrl.environments.control import cart_pole
from fedrl.environments.tabular import finite, random_mdp, solvers
from fedrl.evaluation import exact_return
from fedrl.federations.federation import Federation
from fedrl.keys import of_seed
from fedrl.learners.exact_gradient import exact_gradient
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.mlp import mlp
from fedrl.policies.softmax import softmax_table
from fedrl.types import Client

GAMMA, LAM, HORIZON = 0.7, 0.3, 3
MDP = random_mdp.dense(3, 4, 0.5)(of_seed(3), jnp.int32(1))
ENVIRONMENT = finite.environment(3, 4, GAMMA)
WHO = Client(jnp.int32(0), MDP, (), ())


def at(direction, theta, key=None):
    key = of_seed(0) if key is None else key
    return direction.learn(theta, (), direction.sample(theta, (), WHO, key), WHO, key)


def drawn(policy):
    acting = policy()(ENVIRONMENT)
    return acting, 0.7 * jax.random.normal(of_seed(1), acting.init(of_seed(0)).shape)


@pytest.mark.parametrize("policy", [softmax_table, bit_softmax])
@pytest.mark.parametrize("horizon", [None, HORIZON])
def test_central_differences(policy, horizon):
    with jax.enable_x64(True):
        acting = policy()(ENVIRONMENT)
        mdp = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), MDP)
        theta = np.random.default_rng(0).normal(size=acting.init(of_seed(0)).shape)
        direction = exact_gradient(lam=LAM, horizon=horizon)(ENVIRONMENT, acting)
        found = direction.sample(jnp.asarray(theta), (), WHO._replace(env_params=mdp), of_seed(0))

        @jax.jit
        def f(x):
            return solvers.objective(acting, x, mdp, GAMMA, LAM, None, horizon)

        for place in np.ndindex(theta.shape):
            step = np.zeros_like(theta)
            step[place] = 1e-5
            slope = (f(jnp.asarray(theta + step)) - f(jnp.asarray(theta - step))) / 2e-5
            np.testing.assert_allclose(found[place], slope, atol=1e-8)


@pytest.mark.parametrize("policy", [softmax_table, bit_softmax])
def test_it_is_the_mean_of_reinforce_on_episodes_of_its_horizon(policy):
    """Of short ones, whose mean is far from the gradient itself."""
    acting, theta = drawn(policy)
    estimate = reinforce(horizon=HORIZON, lam=LAM)(ENVIRONMENT, acting)
    one = jax.jit(lambda key: at(estimate, theta, key)[0])
    sampled = np.asarray(jax.lax.map(one, jax.random.split(of_seed(7), 100_000), batch_size=4000))
    mean, error = sampled.mean(0), sampled.std(0, ddof=1) / np.sqrt(len(sampled))
    exact, whole = (at(exact_gradient(lam=LAM, horizon=T)(ENVIRONMENT, acting), theta)[0] for T in (HORIZON, None))
    assert np.all(np.abs(mean - exact) <= 4.5 * error + 1e-6)
    assert np.any(np.abs(mean - whole) > 10 * error)


def test_it_acts_in_no_environment():
    acting, theta = drawn(softmax_table)
    _, steps = at(exact_gradient()(ENVIRONMENT, acting), theta)
    assert int(steps) == 0


def test_a_long_horizon_leaves_no_bias():
    acting, theta = drawn(softmax_table)
    long, whole = (at(exact_gradient(lam=LAM, horizon=T)(ENVIRONMENT, acting), theta)[0] for T in (80, None))
    np.testing.assert_allclose(long, whole, atol=1e-6)


def test_local_steps_of_identical_clients_are_steps_of_one():
    """No noise and no heterogeneity: R rounds of H local steps are R H rounds of one."""
    where = Federation(ENVIRONMENT, [MDP, MDP])

    def end(local_steps, rounds):
        learner = gradient_learner(exact_gradient(lam=LAM), eta=0.2, local_steps=local_steps)
        return np.asarray(train(fedavg(learner), where, rounds=rounds, evaluation=exact_return()).theta)

    np.testing.assert_allclose(end(5, 4), end(1, 20), atol=1e-5)


def test_a_federation_with_large_batches_follows_it():
    """The reduction: without noise RS-FedPG is this. What is left of 20,000 episodes is below 5 % of the way."""
    where = Federation(ENVIRONMENT, [random_mdp.dense(3, 4, 0.5)(of_seed(3), i) for i in range(2)])
    settings = {"eta": 0.2, "local_steps": 2}
    exact = fedavg(gradient_learner(exact_gradient(lam=LAM, horizon=HORIZON), **settings))
    sampled = rs_fedpg(horizon=HORIZON, batch=20_000, lam=LAM, **settings)
    ends = [np.asarray(train(m, where, rounds=4, evaluation=exact_return()).theta) for m in (exact, sampled)]
    assert np.linalg.norm(ends[0] - ends[1]) < 0.05 * np.linalg.norm(ends[0])


def test_what_has_no_exact_gradient_is_refused():
    direction = exact_gradient()
    with pytest.raises(ValueError, match="exact_gradient needs a policy with a table"):
        direction(ENVIRONMENT, mlp(4)(ENVIRONMENT))
    poles = cart_pole.environment()
    with pytest.raises(ValueError, match="a table needs finite observations"):
        direction(poles, mlp(4)(poles))
    with pytest.raises(ValueError, match="exact_gradient solves finite MDPs"):
        direction(ENVIRONMENT, drawn(softmax_table)[0]).sample(
            jnp.zeros((3, 4)), (), WHO._replace(env_params=()), keys.of_seed(0)
        )
    near = finite.environment(3, 4, 0.9999)
    with pytest.warns(UserWarning, match="exact_gradient solves linear systems, and at gamma = 0.9999"):
        direction(near, softmax_table()(near))
