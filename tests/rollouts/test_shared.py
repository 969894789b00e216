"""Clients that meet in one world: all act at once, the world goes on between roll-outs, engines agree (about 30 s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.engine_runs import end_state
from support.herds import AGENTS, herd

from fedrl import keys
from fedrl.algorithms.alone import alone
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import path
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import sampled_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.ppo import ppo
from fedrl.learners.reinforce import reinforce
from fedrl.policies.mlp import mlp
from fedrl.rollouts.shared import shared_rollout
from fedrl.types import Client

LIMIT, STEPS, COPIES = 12, 8, 2
PPO = ppo(
    policy=mlp(4), value=(4,), steps=STEPS * COPIES, num_envs=COPIES, epochs=1, minibatch=16, critic_epochs=1,
    critic_minibatch=16,
)  # fmt: skip


def rolled(rollouts: int, horizon: int = STEPS):
    """Some roll-outs in a row with three different policies, and the scene before each of them and at the end."""
    where = herd(LIMIT)
    policy = mlp(4)(where.environment)
    theta = jax.vmap(policy.init)(jax.random.split(jax.random.key(1), AGENTS))
    clients = Client(jnp.arange(AGENTS, dtype=jnp.int32), jnp.zeros(AGENTS), (), ())
    shared = shared_rollout(where.environment, policy, horizon=horizon, batch=COPIES)
    scenes = [shared.init(jnp.zeros(()), jax.random.key(0))]
    trajectory = []
    for number in range(rollouts):
        saw, shared_state = jax.jit(shared.sample)(
            theta, clients, scenes[-1], keys.of(jax.random.key(2), "roll-out", number)
        )
        trajectory.append(jax.tree.map(np.asarray, saw))
        scenes.append(shared_state)
    return policy, theta, trajectory, scenes


def test_what_each_sees():
    """Its own place and its neighbour's; the world that all their actions made; the same reward for all."""
    policy, _, (saw,), (before, _) = rolled(1)
    x = saw.obs[..., 0]  # [m, B, T]
    assert x.shape == (AGENTS, COPIES, STEPS)
    np.testing.assert_array_equal(saw.obs[..., 1], np.roll(x, 1, axis=0))
    np.testing.assert_array_equal(x[:, :, 0].T, before.x)
    np.testing.assert_array_equal(saw.after[:, :, :-1], saw.obs[:, :, 1:])  # nobody's epoch ended
    moved = np.asarray(jax.vmap(policy.action)(saw.choice.reshape(-1, 1))).reshape(x.shape)
    assert np.abs(saw.after[..., 0] - x - 0.1 * moved).max() < 0.06  # but for the world's own noise of 0.01
    assert np.ptp(saw.reward, axis=0).max() == 0.0


def test_the_world_goes_on_and_epochs_span_roll_outs():
    *_, (first, second, third), scenes = rolled(3)
    np.testing.assert_array_equal(second.obs[:, :, 0], first.after[:, :, -1])
    assert np.asarray(scenes[1].steps).tolist() == [STEPS] * COPIES
    ended = LIMIT - STEPS - 1  # within the second roll-out
    assert second.truncated[..., ended].all()
    assert not second.truncated[..., :ended].any()
    assert (second.obs[:, :, ended + 1] != second.after[:, :, ended]).any()  # a new epoch
    np.testing.assert_array_equal(third.obs[:, :, 0], second.after[:, :, -1])
    assert first.truncated[..., -1].all()  # the roll-out stops here, though the world goes on


GRADIENT = gradient_learner(reinforce(horizon=6, batch=2), eta=0.1, local_steps=1, policy=mlp(4))
METHODS = {
    "FIRL": fmarl(GRADIENT, tau=1),
    "FIRL_C": fmarl(PPO, tau=2, graph=path(AGENTS)),
    "IRL": alone(GRADIENT),
}


@pytest.mark.parametrize("name", METHODS)
def test_engines_agree_to_the_bit(name):
    look = sampled_return(2, per_step=True)
    ends = [end_state(METHODS[name], engine, herd(LIMIT), look, rounds=3) for engine in (fused(), one_at_a_time())]
    assert ends[0] == ends[1]


def test_measuring_leaves_the_shared_state_as_it_is():
    where = herd(LIMIT)
    algorithm = METHODS["FIRL"](where)
    look = sampled_return(3, per_step=True)(algorithm, where)
    ends = []
    for eval_every in (1, 100):
        play = fused("map")(algorithm, where, look, eval_every)
        state, _ = play.advance(play.init([0])[0], 0, 2)
        ends.append(state.clients.shared_state)
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, ends), strict=True))
    returns = np.asarray(play.evaluate(state)["measure/returns"])
    assert returns.shape == (1, AGENTS)
    assert np.ptp(returns) == 0.0  # one reward for all


def test_who_needs_a_world_of_its_own_says_so():
    with pytest.raises(
        ValueError, match="3 clients share this environment, but this learner needs one environment per client"
    ):
        fedsvrpg_m(eta=0.1, beta=0.5, local_steps=1, horizon=4, policy=mlp(4))(herd())
