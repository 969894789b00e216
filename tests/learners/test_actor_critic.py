"""What the critic is fitted to, by a trajectory whose returns are computed by hand (about 10 s)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from support.actor_critics import PASSES, STEPS, TINY, UNFILTERED, Bench

from fedrl import keys
from fedrl.learners.filtering import Theta
from fedrl.learners.optimizers import sgd
from fedrl.learners.ppo import ppo
from fedrl.policies.network import Layer
from fedrl.types import Model, Trajectory

GAMMA = 0.9  # of the bench
REWARD = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
VALUES = np.array([5.0, -4.0, 3.0, 7.0], np.float32)  # of the critic it starts from
FIT = {"value": (), "critic_epochs": 4000, "critic_learning_rate": 1e-3, "critic_minibatch": STEPS, "epochs": 0}


def walk() -> Trajectory:
    """Four states in turn, each an observation of its own, then the end; a linear critic is a table."""
    states, no = jnp.eye(4)[None], jnp.zeros((1, 4), bool)
    after = jnp.roll(states, -1, axis=1)
    return Trajectory(
        states, jnp.zeros((1, 4), jnp.int32), jnp.asarray(REWARD)[None], ~no, no.at[0, 3].set(True), no, after
    )


def fitted(gae_lambda: float, **settings: Any) -> np.ndarray:
    """The values after one iteration that, unless `settings` say otherwise, trains the critic until nothing moves."""
    bench = Bench(ppo(**TINY | PASSES | UNFILTERED | FIT | {"gae_lambda": gae_lambda} | settings))
    critic = (Layer((1 - GAMMA) * jnp.asarray(VALUES)[:, None], jnp.zeros(1)),)  # it gives (1 - gamma) V
    local = bench.learner.local.start(
        Model(Theta(bench.theta.actor, critic), jnp.int32(0)), bench.client, keys.of_seed(0)
    )
    ((kernel, bias),) = bench.learn(local, walk(), keys.of_seed(1)).theta.critic
    return (np.asarray(kernel)[:, 0] + float(bias[0])) / (1 - GAMMA)


def test_the_critic_is_fitted_to_advantage_plus_value():
    """lam = 1: that is the discounted reward to go, whatever the critic said before."""
    to_go = [1.0 + 0.9 * (2.0 + 0.9 * (3.0 + 0.9 * 4.0)), 2.0 + 0.9 * (3.0 + 0.9 * 4.0), 3.0 + 0.9 * 4.0, 4.0]
    np.testing.assert_allclose(fitted(1.0), to_go, atol=1e-2)


def test_with_lam_zero_it_is_one_reward_and_the_next_value():
    np.testing.assert_allclose(fitted(0.0), [1.0 - 0.9 * 4.0, 2.0 + 0.9 * 3.0, 3.0 + 0.9 * 7.0, 4.0], atol=1e-2)


def test_the_critic_can_start_near_zero():
    """`value_last` scales the last kernel, and nothing else."""
    settings = TINY | PASSES | UNFILTERED
    plain, small = (Bench(ppo(**settings | {"value_last": scale})).theta for scale in (1.0, 0.01))
    *first, (kernel, bias) = plain.critic
    *same, (small_kernel, small_bias) = small.critic
    np.testing.assert_allclose(small_kernel, 0.01 * kernel, rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, (first, bias, plain.actor), (same, small_bias, small.actor))


def test_the_critic_can_be_fitted_by_plain_gradient_descent():
    """One pass with `sgd(0.0)` moves a linear critic by minus its step times the gradient of the mean square error."""
    once = {"critic_epochs": 1, "critic_optimizer": sgd(0.0), "critic_learning_rate": 0.5, "gae_lambda": 1.0}
    to_go = np.array([1.0 + 0.9 * (2.0 + 0.9 * (3.0 + 3.6)), 2.0 + 0.9 * (3.0 + 3.6), 3.0 + 3.6, 4.0])
    moved = fitted(**once) - VALUES
    # each of four states has its own weight and shares the bias: d/dw = 2 (V - target) / 4, summed for the bias
    gradient = (VALUES - to_go) / 2
    np.testing.assert_allclose(moved, -0.5 * (gradient + gradient.sum()), rtol=1e-4)
