"""Neural policies: probabilities, entropy and KL against numbers computed another way; NumPy acts as JAX does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.control import cart_pole, mountain_car
from fedrl.environments.tabular import finite
from fedrl.keys import of_seed
from fedrl.policies import filtered as filters
from fedrl.policies.mlp import categorical_mlp, gaussian_mlp, mlp

CART, CAR, TABLE = cart_pole.environment(), mountain_car.environment(), finite.environment(5, 3, 0.9)


def observations(environment, count: int = 7):
    if environment is TABLE:
        return jnp.arange(count, dtype=jnp.int32) % 5
    return jax.random.normal(of_seed(1), (count, environment.observations.size))


@pytest.mark.parametrize("environment", [CART, CAR, TABLE], ids=["CartPole", "MountainCar", "finite"])
def test_numpy_acts_as_jax(environment):
    policy = mlp(8, 8)(environment)
    theta, obs = policy.init(of_seed(0)), observations(environment)
    noise = policy.noise(of_seed(2), (7,))
    ready = policy.prepare(theta)
    choice = jax.vmap(lambda o, n: policy.sample(ready, o, n))(obs, noise)
    action = jax.vmap(policy.action)(choice)
    on_host = policy.host(jax.tree.map(np.asarray, theta), np.asarray(obs), np.asarray(noise))
    np.testing.assert_allclose(on_host[0], choice, atol=1e-5)
    np.testing.assert_allclose(on_host[1], action, atol=1e-5)
    assert on_host[0].dtype == choice.dtype
    assert on_host[1].shape == action.shape


def test_categorical_probabilities_sum_to_one_and_entropy():
    policy = categorical_mlp(8)(CART)
    theta, obs = policy.init(of_seed(0)), observations(CART)
    eval_every = jnp.stack([policy.log_probs(theta, obs, jnp.full((7,), a))[:, 0] for a in range(2)], axis=-1)
    np.testing.assert_allclose(jnp.exp(eval_every).sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(theta, obs), -(jnp.exp(eval_every) * eval_every).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("environment", [CART, CAR], ids=["categorical", "Gaussian"])
def test_kl_is_the_mean_log_ratio(environment):
    policy = mlp(8)(environment)
    theta, other = policy.init(of_seed(0)), policy.init(of_seed(1))
    if environment is CAR:
        other = other._replace(log_std=other.log_std + 0.3)
    obs = observations(environment, 3)
    many = jnp.repeat(obs, 100_000, axis=0)
    ready, noise = policy.prepare(theta), policy.noise(of_seed(3), (300_000,))
    choice = jax.vmap(lambda o, n: policy.sample(ready, o, n))(many, noise)
    ratio = (policy.log_probs(theta, many, choice) - policy.log_probs(other, many, choice)).reshape(3, -1)
    error = np.asarray(ratio.std(1)) / np.sqrt(100_000)
    assert np.all(np.abs(np.asarray(ratio.mean(1) - policy.kl(theta, other, obs))) < 4 * error + 1e-6)
    np.testing.assert_allclose(policy.kl(theta, theta, obs), 0.0, atol=1e-6)


def test_gaussian_density_and_entropy():
    policy = gaussian_mlp(8, log_std=-0.5)(CAR)
    theta, obs = policy.init(of_seed(0)), observations(CAR)
    grid = jnp.linspace(-6.0, 6.0, 4001)
    density = jnp.exp(jax.vmap(lambda a: policy.log_probs(theta, obs, jnp.full((7, 1), a))[:, 0])(grid))
    step = float(grid[1] - grid[0])
    np.testing.assert_allclose(density.sum(0) * step, 1.0, rtol=1e-4)
    np.testing.assert_allclose(
        -(density * jnp.log(density + 1e-30)).sum(0) * step, policy.entropy(theta, obs), rtol=1e-3
    )


def test_wrong_kind_of_actions():
    with pytest.raises(ValueError, match="use gaussian_mlp"):
        categorical_mlp(8)(CAR)
    with pytest.raises(ValueError, match="use categorical_mlp"):
        gaussian_mlp(8)(CART)


def test_running_moments_are_those_of_everything_seen():
    data = np.random.default_rng(0).normal(3.0, [1.0, 20.0], size=(300, 2)).astype(np.float32)
    moments = filters.empty_moments(2)
    for part in np.split(data, [10, 11, 200]):
        moments = filters.update(moments, jnp.asarray(part), jnp.ones(len(part)))
    np.testing.assert_allclose(moments.mean, data.mean(0), rtol=1e-5)
    np.testing.assert_allclose(filters.deviation(moments), data.std(0, ddof=1), rtol=1e-5)
    hidden = filters.update(moments, jnp.full((4, 2), 1e3), jnp.zeros(4))
    np.testing.assert_allclose(hidden.mean, moments.mean)


def test_a_filter_standardises_and_clips():
    moments = filters.update(filters.empty_moments(2), jnp.asarray([[0.0, 0.0], [2.0, 4.0]]), jnp.ones(2))
    got = filters.standardise(moments, jnp.asarray([[1.0, 2.0], [1.0, 1e6]]))
    np.testing.assert_allclose(got, [[0.0, 0.0], [0.0, filters.CLIP_OBS]], atol=1e-6)
    np.testing.assert_allclose(filters.standardise(filters.empty_moments(2), jnp.ones((1, 2))), 1.0)
    np.testing.assert_allclose(filters.scale_reward(moments, jnp.asarray([2.0, -1e6]))[1], -filters.CLIP_REWARD)


def test_a_filtered_policy_is_the_policy_on_standardised_observations():
    plain = gaussian_mlp(8)(CAR)
    policy, obs = filters.filtered(plain), 3.0 + observations(CAR)
    moments = filters.update(filters.empty_moments(2), obs, jnp.ones(7))
    theta = filters.Filtered(plain.init(of_seed(0)), moments)
    looked = filters.standardise(moments, obs)
    choice = jnp.ones((7, 1))
    np.testing.assert_allclose(policy.log_probs(theta, obs, choice), plain.log_probs(theta.theta, looked, choice))
    noise = np.zeros((7, 1), np.float32)
    on_host, _ = policy.host(jax.tree.map(np.asarray, theta), np.asarray(obs), noise)
    ready = policy.prepare(theta)
    np.testing.assert_allclose(on_host, jax.vmap(lambda o: policy.sample(ready, o, noise[0]))(obs), atol=1e-5)
