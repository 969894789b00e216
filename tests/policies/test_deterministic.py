"""Policies without noise: the most likely choice, traced and in NumPy, of tables and networks, sampled and exact."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

import fedrl
from fedrl.algorithms.fedavg import pavg
from fedrl.environments import protocol
from fedrl.environments.control import cart_pole, mountain_car
from fedrl.environments.tabular import finite, solvers
from fedrl.evaluation import exact_return
from fedrl.keys import of_seed
from fedrl.policies import filtered as filters
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.deterministic import deterministic
from fedrl.policies.greedy import greedy_table
from fedrl.policies.mlp import mlp
from fedrl.policies.probabilities import probability_table
from fedrl.policies.softmax import softmax_table
from fedrl.rollouts import host
from fedrl.rollouts.episodes import sampler
from fedrl.types import Client

TABLE = finite.environment(5, 3, 0.9)
STATES = jnp.arange(5, dtype=jnp.int32)
CAR, CART = mountain_car.environment(), cart_pole.environment()


@pytest.mark.parametrize("build", [softmax_table(), probability_table(), bit_softmax(), greedy_table()])
def test_a_table_takes_its_most_likely_action(build):
    policy = build(TABLE)
    shape = policy.init(of_seed(0)).shape
    theta = jax.random.dirichlet(of_seed(1), jnp.ones(shape[-1]), shape[:-1])
    best = jnp.argmax(solvers.probabilities(policy, theta), axis=-1)
    np.testing.assert_array_equal(policy.action(policy.mode(theta, STATES)), best)
    acting = deterministic(policy)
    for state in range(5):
        noise = acting.noise(of_seed(state), ())
        assert acting.action(acting.sample(acting.prepare(theta), jnp.int32(state), noise)) == best[state]


def test_words_left_over_count_for_the_last_action():
    """Words 10 and 11 both mean action 2: .3 + .3 is more than the .4 of word 00."""
    policy = bit_softmax()(TABLE)
    first, second = np.log([[0.4, 0.6]]), np.log([[1 - 1e-6, 1e-6]])
    theta = jnp.asarray(np.concatenate([first, second, np.log([[0.5, 0.5]])]), jnp.float32)
    words = jnp.exp(policy.table(jnp.broadcast_to(theta, (5, 3, 2))).sum(-1))[0]
    np.testing.assert_allclose(words, [0.4, 0.0, 0.3, 0.3], atol=1e-5)
    assert policy.mode(jnp.broadcast_to(theta, (5, 3, 2)), STATES).tolist() == [2] * 5


def test_networks_take_the_argmax_and_the_mean_and_numpy_does_too():
    several = CART._replace(actions=protocol.MultiDiscrete((2, 3)))
    for environment in (CART, CAR, TABLE, several):
        policy = mlp(8)(environment)
        theta = policy.init(of_seed(0))
        size = environment.observations.size if environment is not TABLE else 0
        obs = jax.random.normal(of_seed(1), (6, size)) if size else STATES
        found = policy.mode(theta, obs)
        choice, action = policy.host(jax.tree.map(np.asarray, theta), np.asarray(obs), None)
        np.testing.assert_allclose(choice, found, atol=1e-6)
        assert choice.dtype == found.dtype
        assert action.shape == jax.vmap(policy.action)(found).shape
        if environment is CAR:  # noise zero is the mean
            drawn = policy.sample(policy.prepare(theta), obs[0], jnp.zeros(1))
            np.testing.assert_allclose(found[0], drawn, rtol=1e-6)


def test_a_filtered_policy_looks_through_its_filter():
    plain = mlp(8)(CAR)
    policy, obs = filters.filtered(plain), 3.0 + jax.random.normal(of_seed(1), (6, 2))
    moments = filters.update(filters.empty_moments(2), obs, jnp.ones(6))
    theta = filters.Filtered(plain.init(of_seed(0)), moments)
    wanted = plain.mode(theta.theta, filters.standardise(moments, obs))
    np.testing.assert_array_equal(policy.mode(theta, obs), wanted)
    np.testing.assert_allclose(
        policy.host(jax.tree.map(np.asarray, theta), np.asarray(obs), None)[0], wanted, atol=1e-6
    )


def test_roll_outs_do_not_depend_on_draws():
    """On the host, and through the traced function where there is none for NumPy."""
    lake = fedrl.gymnasium(
        lambda client_id: gym.make("FrozenLake-v1", is_slippery=False), clients=1, max_episode_steps=6
    )
    theta = np.zeros((16, 4), np.float32) + np.asarray([0.0, 0.0, 0.1, 0.0], np.float32)  # right, but only just
    who = Client(np.int32(0), np.int32(0), (), ())
    play = sampler(lake.environment, deterministic(softmax_table()(lake.environment)), horizon=6, batch=3)
    for seed in (0, 1):
        np.testing.assert_array_equal(play(theta, who, jax.random.key(seed)).choice, np.full((3, 6), 2))
    host.close_all()


def test_exact_return_of_the_most_likely_action():
    """The exact one against a table that always plays it; PAvg's policy is far from deterministic."""
    where = federation(3)
    method = pavg(eta=0.5, local_steps=2, horizon=5)
    noisy, quiet = (
        fedrl.train(method, where, rounds=2, evaluation=exact_return(deterministic=flag)) for flag in (False, True)
    )
    np.testing.assert_array_equal(noisy.theta, quiet.theta)
    best = jnp.argmax(noisy.theta[0], axis=-1)
    gamma = where.environment.gamma
    pi = solvers.deterministic(best, where.environment.actions.n)
    env_params = where.shared()
    wanted = jax.vmap(lambda mdp: jnp.dot(mdp.start, solvers.value(mdp, pi, gamma)))(env_params)
    np.testing.assert_allclose(quiet.returns[0], wanted, rtol=1e-5)
    assert (np.abs(quiet.returns - noisy.returns) > 1e-4).any()


def test_in_a_compiled_program_nothing_depends_on_draws():
    """Cars that start in one place take the same way, whatever the key."""
    policy = mlp(4)(CART)
    play = jax.jit(sampler(cart_pole.environment(max_episode_steps=30), deterministic(policy), horizon=30, batch=2))
    who = Client(jnp.int32(0), cart_pole.params(start=0.0), (), ())
    theta = policy.init(of_seed(0))
    one, other = (play(theta, who, of_seed(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one.choice, other.choice)
    np.testing.assert_array_equal(one.choice[one.alive], policy.mode(theta, one.obs)[one.alive])


def test_a_policy_without_a_most_likely_choice_is_refused():
    with pytest.raises(ValueError, match="deterministic=True needs a policy with a most likely action"):
        deterministic(softmax_table()(TABLE)._replace(mode=None))
