"""One categorical per dimension: against the joint distribution written out and the plain categorical; PPO learns bits."""

import itertools

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, MultiBinary, MultiDiscrete

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments import protocol
from fedrl.environments.control import cart_pole
from fedrl.evaluation import sampled_return
from fedrl.keys import of_seed
from fedrl.learners.optimizers import constant
from fedrl.learners.ppo import ppo
from fedrl.policies.mlp import categorical_mlp, mlp
from fedrl.policies.multi_categorical import multi_categorical_mlp

SIZES = (3, 2, 4)
CART = cart_pole.environment()
SEVERAL = CART._replace(actions=protocol.MultiDiscrete(SIZES))
POLICY = mlp(8)(SEVERAL)
THETA, OTHER = POLICY.init(of_seed(0)), POLICY.init(of_seed(1))
OBS = jax.random.normal(of_seed(2), (7, 4))
EVERY = np.array(list(itertools.product(*map(range, SIZES))), np.int32)  # [24, 3]


def joint(theta) -> np.ndarray:
    """Log-probabilities [7, 24] of all joint choices."""
    each = [POLICY.log_probs(theta, OBS, jnp.broadcast_to(jnp.asarray(c), (7, 3))).sum(-1) for c in EVERY]
    return np.stack(each, axis=1).astype(np.float64)


def test_the_joint_distribution_is_one():
    mine, other = joint(THETA), joint(OTHER)
    np.testing.assert_allclose(np.exp(mine).sum(1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(POLICY.entropy(THETA, OBS), -(np.exp(mine) * mine).sum(1), rtol=1e-5)
    np.testing.assert_allclose(POLICY.kl(THETA, OTHER, OBS), (np.exp(mine) * (mine - other)).sum(1), rtol=1e-4)
    for q in (0.5, 1.5, 2.0):
        wanted = (1 - np.exp(q * mine).sum(1)) / (q - 1)
        np.testing.assert_allclose(POLICY.tsallis(THETA, OBS, q), wanted, rtol=1e-5)
    best = POLICY.mode(THETA, OBS)
    np.testing.assert_array_equal(best, EVERY[mine.argmax(1)])
    assert POLICY.decisions == 3


def test_gradients_are_finite_though_dimensions_have_other_sizes():
    def all_of_it(theta):
        numbers = POLICY.tsallis(theta, OBS, 1.5) + POLICY.entropy(theta, OBS) + POLICY.kl(OTHER, theta, OBS)
        return jnp.sum(numbers) + jnp.sum(POLICY.log_probs(theta, OBS, jnp.ones((7, 3), jnp.int32)))

    slopes = jax.tree.leaves(jax.grad(all_of_it)(THETA))
    assert all(np.isfinite(x).all() and np.any(np.asarray(x) != 0) for x in slopes)


def test_draws_are_as_likely_as_they_say_and_numpy_draws_the_same():
    noise = POLICY.noise(of_seed(3), (20_000,))
    one = jnp.broadcast_to(OBS[:1], (20_000, 4))
    drawn = np.asarray(jax.vmap(lambda o, n: POLICY.sample(THETA, o, n))(one, noise))
    found = np.array([(drawn == choice).all(1).mean() for choice in EVERY])
    wanted = np.exp(joint(THETA)[0])
    assert np.all(np.abs(found - wanted) < 5 * np.sqrt(wanted / 20_000))
    theta = jax.tree.map(np.asarray, THETA)
    choice, action = POLICY.host(theta, np.asarray(one), np.asarray(noise))
    np.testing.assert_array_equal(choice, drawn)
    np.testing.assert_array_equal(action, drawn)
    assert choice.dtype == drawn.dtype
    np.testing.assert_array_equal(POLICY.host(theta, np.asarray(OBS), None)[0], POLICY.mode(THETA, OBS))


def test_a_draw_of_nearly_one_is_never_past_the_last_choice():
    most = jnp.full((3,), np.nextafter(np.float32(1), np.float32(0)))
    np.testing.assert_array_equal(POLICY.sample(THETA, OBS[0], most), [2, 1, 3])
    theta = jax.tree.map(np.asarray, THETA)
    np.testing.assert_array_equal(POLICY.host(theta, np.asarray(OBS[:1]), np.asarray(most)[None])[0], [[2, 1, 3]])


def test_with_one_dimension_it_is_the_categorical():
    one = multi_categorical_mlp(8)(CART._replace(actions=protocol.MultiDiscrete((2,))))
    plain = categorical_mlp(8)(CART)
    theta, choice = plain.init(of_seed(0)), jnp.arange(7) % 2
    np.testing.assert_array_equal(one.log_probs(theta, OBS, choice[:, None]), plain.log_probs(theta, OBS, choice))
    np.testing.assert_allclose(one.tsallis(theta, OBS, 1.5), plain.tsallis(theta, OBS, 1.5), rtol=1e-5)
    np.testing.assert_allclose(one.kl(theta, one.init(of_seed(1)), OBS), plain.kl(theta, one.init(of_seed(1)), OBS))


def test_other_actions_are_refused():
    with pytest.raises(ValueError, match=r"several finite choices at once, got Discrete\(n=2\); use mlp"):
        multi_categorical_mlp(8)(CART)


class Match(gym.Env):
    """Say the bits that are shown; the reward is the share that is right."""

    observation_space = Box(0.0, 1.0, (3,))

    def __init__(self, client_id: int):
        self.action_space = MultiBinary(3) if client_id >= 0 else MultiDiscrete([2, 2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self.np_random.integers(0, 2, 3)
        return self.shown.astype(np.float32), {}

    def step(self, action):
        assert action in self.action_space
        reward = float(np.mean(action == self.shown))
        self.shown = self.np_random.integers(0, 2, 3)
        return self.shown.astype(np.float32), reward, False, False, {}


def test_ppo_learns_to_match_bits():
    where = fedrl.gymnasium(Match, clients=2, max_episode_steps=16, gamma=0.1)
    assert where.environment.actions == protocol.MultiDiscrete((2, 2, 2))
    learner = ppo(
        policy=mlp(16), value=(8,), steps=256, num_envs=8, learning_rate=constant(1e-2), epochs=4, minibatch=64,
        critic_epochs=1, critic_minibatch=64,
    )  # fmt: skip
    look = sampled_return(2, deterministic=True)
    run = fedrl.train(fedavg(learner), where, rounds=4, engine=one_at_a_time(), evaluation=look, eval_every=4)
    assert run.rows[-1]["return"] > 15.0  # of 16; by chance 8
