"""PPO's iteration checked by hand on a tiny cart-pole, what a client keeps, the same bits on every engine (about 40 s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.actor_critics import (
    CARS,
    LOOK,
    ONE_STEP,
    PASSES,
    POLES,
    STEPS,
    TINY,
    UNFILTERED,
    Bench,
    advantages,
    goes_along_the_gradient,
    same,
    same_bits_fused,
)
from support.engine_runs import end_state

from fedrl import trees
from fedrl.algorithms.fedavg import fedavg
from fedrl.core.client import all_steps
from fedrl.engines import local_processes as workers
from fedrl.engines.local_processes import processes
from fedrl.environments.tabular import finite
from fedrl.learners.optimizers import constant, sgd
from fedrl.learners.ppo import ppo
from fedrl.learners.surrogates import Trust, adaptive_kl, clipped
from fedrl.policies.mlp import mlp
from fedrl.policies.softmax import softmax_table
from fedrl.types import Model


def bench_of(**settings) -> Bench:
    return Bench(ppo(**TINY | PASSES | settings))


@pytest.mark.parametrize(
    ("settings", "moves"),
    [
        ({"epochs": 0, "critic_epochs": 0}, [(False, False), (False, False)]),
        (
            {"learning_rate": lambda round: 0.01 * round.astype(jnp.float32), "critic_learning_rate": 0.0},
            [(False, False), (True, False)],
        ),
        ({"epochs": 0}, [(False, True), (False, True)]),
    ],
)
def test_who_moves(settings, moves):
    """Whether actor and critic do, in rounds 0 and 1."""
    bench = bench_of(**settings)
    for round, (actor, critic) in enumerate(moves):
        _, after = bench.iterate(bench.begin(round))
        assert same(after.theta.actor, bench.theta.actor) != actor
        assert same(after.theta.critic, bench.theta.critic) != critic
        assert float(after.gathered.obs.total) == int(after.env_steps) == STEPS  # it looked about in any case


@pytest.mark.parametrize(("bonus", "bootstrap"), [(0.0, True), (0.3, False)])
def test_one_step_by_hand(bonus, bootstrap):
    """Along the gradient of mean(A log pi) + bonus * entropy; the step's length is the rate of the round."""
    settings = ONE_STEP | UNFILTERED | {"trust": clipped(0.2), "entropy": constant(bonus), "bootstrap": bootstrap}
    goes_along_the_gradient(
        bench_of(**settings),
        lambda log_pi: -bonus * jnp.mean(jnp.sum(jnp.exp(log_pi) * log_pi, axis=1)),
        bootstrap=bootstrap,
    )


@pytest.mark.parametrize("filters", ["pooled", "own"])
def test_what_a_client_keeps(filters):
    """Filters are the moments of all it has seen; of three iterations it remembers the last two, oldest first."""
    bench = bench_of(remember=2, warm_up=2 * STEPS, filters=filters)
    local, saw = bench.begin(), []
    for number in range(3):
        trajectory, local = bench.iterate(local, number)
        saw.append(jax.tree.map(np.asarray, trajectory))
    for kept, older, newer in zip(local.memory.recent, saw[1], saw[2], strict=True):
        np.testing.assert_array_equal(kept, np.concatenate([older, newer]))
    own = local.gathered if filters == "pooled" else local.memory.filters
    assert same(local.theta.filters, local.gathered)  # nothing was seen before the message
    for moments, x in (
        (own.obs, np.concatenate([trajectory.obs.reshape(-1, 4) for trajectory in saw])),
        (own.reward, np.concatenate([trajectory.reward.reshape(-1, 1) for trajectory in saw])),
    ):
        assert float(moments.total) == len(x) == 3 * STEPS
        np.testing.assert_allclose(moments.mean, x.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(moments.squares, ((x - x.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-4, atol=1e-5)
    assert int(local.env_steps) == 3 * STEPS


@pytest.mark.parametrize("filters", ["pooled", "own"])
def test_warm_up_fills_the_memory_and_leaves_theta(filters):
    """Seventy steps of warm-up are three iterations of 32, of which two are remembered."""
    bench = bench_of(warm_up=70, remember=2, filters=filters)
    (looking,) = bench.learner.opening
    message = Model(bench.theta, jnp.int32(0))
    local = jax.jit(lambda key: all_steps(looking, message, bench.client, key))(jax.random.key(4))
    upload, memory, env_steps = looking.finish(local, bench.client)
    assert not jax.tree.leaves((upload.actor, upload.critic))
    assert same(local.theta[:2], bench.theta[:2])
    trajectory, kept_at_home = (
        (upload.filters, memory.filters) if filters == "pooled" else (memory.filters, upload.filters)
    )
    assert float(trajectory.obs.total) == float(trajectory.reward.total) == int(env_steps) == 96
    assert not jax.tree.leaves(kept_at_home)
    assert bool(memory.recent.alive.all())  # both places are taken
    assert same((memory.actor, memory.critic), (bench.client.memory.actor, bench.client.memory.critic))


def test_penalty_coefficient_follows_the_kl():
    """No step, no KL: beta is halved. A step far beyond the target: doubled. It stays in the client's memory."""
    bench = bench_of(
        trust=adaptive_kl(1e-4),
        learning_rate=lambda round: jnp.where(round == 0, 0.0, 0.05),
        optimizer=sgd(0.0),
        epochs=1,
    )
    _, still = bench.iterate(bench.begin(round=0))
    assert float(still.memory.actor.beta) == 0.5
    _, far = bench.iterate(bench.begin(round=1))
    assert float(far.memory.actor.beta) == 2.0
    _, again = bench.iterate(still, 1)
    assert float(again.memory.actor.beta) == 0.25


def test_the_penalty_is_the_kl_from_the_old_policy_to_the_new():
    """Two plain steps on the whole batch up mean(rho A) - 50 KL(old || new), and what `adapt` is told, by hand.

    At the first step the KL has no slope; the second, and the KL after it, tell KL(old || new) from KL(new || old).
    """
    trust = Trust(
        objective=lambda ratio, advantage, kl, beta: ratio * advantage - 50.0 * kl,
        adapt=lambda beta, kl, largest: kl,
    )
    settings = (
        ONE_STEP | UNFILTERED | {"policy": mlp(last=1.0), "trust": trust, "epochs": 2, "learning_rate": constant(1.0)}
    )
    bench = bench_of(**settings)
    trajectory, after = bench.iterate(bench.begin())
    advantage = jnp.asarray(advantages(trajectory, bench.theta.critic), jnp.float32)
    obs, choice = trajectory.obs.reshape(-1, 4), trajectory.choice.reshape(-1)

    def log_pi(actor):
        ((kernel, bias),) = actor
        return jax.nn.log_softmax(obs @ kernel + bias[None, :])

    def kl(actor):
        return jnp.mean(jnp.sum(jnp.exp(old) * (old - log_pi(actor)), axis=1))

    def gain(actor):
        ratio = jnp.exp(jnp.take_along_axis(log_pi(actor) - old, choice[:, None], axis=1)[:, 0])
        return jnp.mean(ratio * advantage) - 50.0 * kl(actor)

    old, actor = log_pi(bench.theta.actor), bench.theta.actor
    for _ in range(2):
        actor = trees.add(actor, jax.grad(gain)(actor))
    for found, wanted in zip(*map(jax.tree.leaves, (after.theta.actor, actor)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(after.memory.actor.beta, kl(actor), rtol=1e-3)
    new = log_pi(actor)
    other = float(jnp.mean(jnp.sum(jnp.exp(new) * (new - old), axis=1)))
    assert abs(other / float(kl(actor)) - 1.0) > 0.02  # the two directions can be told apart here


def test_engines_give_the_same_bits():
    same_bits_fused(ppo(**TINY | PASSES, local_steps=2), POLES)


def test_the_same_bits_with_a_warm_up_and_on_a_worker_process():
    learner = ppo(**TINY | PASSES, remember=1, warm_up=STEPS, trust=adaptive_kl())
    assert end_state(fedavg(learner), processes(1), CARS, LOOK, rounds=2) == same_bits_fused(learner, CARS)
    workers.stop()


def test_uneven_rows_are_refused():
    with pytest.raises(ValueError, match="steps must be a positive multiple of num_envs, got 31 and 2"):
        ppo(steps=31, num_envs=2)


def test_a_policy_without_closed_forms_is_refused():
    with pytest.raises(ValueError, match="PPO needs a policy with closed-form KL and entropy"):
        ppo(policy=softmax_table())(finite.environment(3, 2, 0.9))
