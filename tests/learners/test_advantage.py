"""GAE against sums written out by hand: episodes that end, are cut, begin anew in the middle of a row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.learners.advantage import HANDFUL, gae, standardised, values_after
from fedrl.types import Trajectory

GAMMA, LAM = 0.9, 0.8


def trajectory(terminated, truncated) -> Trajectory:
    terminated, truncated = jnp.asarray(terminated), jnp.asarray(truncated)
    nothing = jnp.zeros(terminated.shape)
    return Trajectory(nothing, nothing, nothing, jnp.ones(terminated.shape, bool), terminated, truncated, nothing)


def test_one_episode_that_ends():
    reward, value = jnp.asarray([[1.0, 2.0, 3.0]]), jnp.asarray([[0.5, 0.4, 0.3]])
    after = jnp.asarray([[0.4, 0.3, 9.0]])  # the last counts nothing: the task is over
    got = gae(trajectory([[False, False, True]], [[False] * 3]), reward, value, after, gamma=GAMMA, gae_lambda=LAM)
    d = [1.0 + 0.9 * 0.4 - 0.5, 2.0 + 0.9 * 0.3 - 0.4, 3.0 - 0.3]
    expected = [d[0] + 0.72 * d[1] + 0.72**2 * d[2], d[1] + 0.72 * d[2], d[2]]
    np.testing.assert_allclose(got[0], expected, rtol=1e-6)


def test_a_cut_episode_is_worth_what_the_critic_says():
    reward, value = jnp.asarray([[1.0, 2.0]]), jnp.asarray([[0.5, 0.4]])
    after = jnp.asarray([[0.4, 9.0]])
    got = gae(trajectory([[False, False]], [[False, True]]), reward, value, after, gamma=GAMMA, gae_lambda=LAM)
    last = 2.0 + 0.9 * 9.0 - 0.4
    np.testing.assert_allclose(got[0], [1.0 + 0.9 * 0.4 - 0.5 + 0.72 * last, last], rtol=1e-6)


def test_nothing_leaks_into_the_episode_before():
    """Row [end | new episode]: the first step's advantage must not know of the second's."""
    reward, value = jnp.asarray([[1.0, 100.0]]), jnp.zeros((1, 2))
    for flags in (([[True, False]], [[False, True]]), ([[False, False]], [[True, True]])):
        got = gae(trajectory(*flags), reward, value, jnp.zeros((1, 2)), gamma=GAMMA, gae_lambda=LAM)
        np.testing.assert_allclose(got[0], [1.0, 100.0], rtol=1e-6)


def test_lam_one_is_the_discounted_return_minus_the_value():
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 3, 20)).astype(np.float32)
    after = np.concatenate([value[:, 1:], np.zeros((3, 1), np.float32)], axis=1)
    terminated = np.zeros((3, 20), bool)
    terminated[:, -1] = True
    got = gae(
        trajectory(terminated, np.zeros_like(terminated)),
        *map(jnp.asarray, (reward, value, after)),
        gamma=GAMMA,
        gae_lambda=1.0,
    )
    to_go = np.zeros(3)
    for t in reversed(range(20)):
        to_go = reward[:, t] + GAMMA * to_go
        np.testing.assert_allclose(got[:, t], to_go - value[:, t], atol=1e-5)


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_values_after_are_those_of_the_critic(share):
    """V of the next step or, at a cut, of what came after it: few cuts, or more than go to the critic at once."""
    rng = np.random.default_rng(3)
    obs, fresh = rng.normal(size=(2, 4, 300)).astype(np.float32)
    truncated = rng.random((4, 300)) < share
    truncated[:-1, -1] = True
    obs[-1, 0] = obs[-1, -1]  # the task of the last row ends there: what is said of its last step does not count
    after = np.where(truncated, fresh, np.roll(obs, -1, axis=1))
    walk = trajectory(np.zeros_like(truncated), truncated)._replace(obs=jnp.asarray(obs), after=jnp.asarray(after))
    got = jax.jit(lambda walk: values_after(walk, 3.0 * walk.obs, lambda x: 3.0 * x))(walk)
    assert (truncated.sum() > HANDFUL) == (share > 0.1)
    np.testing.assert_array_equal(got, 3.0 * after)


def test_standardised():
    x = standardised(jnp.asarray([1.0, 2.0, 3.0, 6.0]))
    np.testing.assert_allclose([x.mean(), x.std()], [0.0, 1.0], atol=1e-6)
