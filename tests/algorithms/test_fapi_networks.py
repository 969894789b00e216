"""FAPI with networks: who moves what, in which exchange; equal clients; the engines agree."""

import jax
import numpy as np
import pytest
from support.engine_runs import end_state

from fedrl.algorithms.fapi_networks import (
    deep_fapi_with_federated_evaluation,
    deep_fapi_without_federated_evaluation,
)
from fedrl.core import round as rounds
from fedrl.core.round import State
from fedrl.engines.fused import _each, _Program, fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import cart_pole
from fedrl.evaluation import sampled_return
from fedrl.faults import STOP
from fedrl.federations.federation import Federation
from fedrl.learners.optimizers import constant
from fedrl.policies.mlp import mlp
from fedrl.selection.participation import uniform

SMALL = {"policy": mlp(8), "value": (8,), "steps": 32, "num_envs": 2, "epochs": 1, "minibatch": 16, "critic_epochs": 2,
         "critic_minibatch": 16, "learning_rate": constant(1e-2)}  # fmt: skip
CARTS = Federation(cart_pole.environment(max_episode_steps=20), cart_pole.start_ranges(3, 0.01, 0.2))


def test_first_the_critic_moves_then_the_actor():
    algorithm = deep_fapi_with_federated_evaluation(**SMALL)(CARTS)
    key = jax.random.key(0)
    play = fused("map")(algorithm, CARTS, sampled_return(1)(algorithm, CARTS), 1)
    state, _ = play.init([0])
    server, clients = jax.tree.map(lambda x: x[0], (state.server, state.clients))
    evaluation, improvement = algorithm.exchanges
    measuring = sampled_return(1)(algorithm, CARTS)
    player = _Program(algorithm, CARTS, measuring, 1, STOP, _each("map", 1)).player(CARTS.shared())
    first = State(key, server, clients)
    (second,), _ = rounds.play((evaluation,), player, [first])
    after = second.server
    assert _same(after.theta.actor, server.theta.actor)
    assert not _same(after.theta.critic, server.theta.critic)
    (third,), _ = rounds.play((improvement,), player, [second])
    last = third.server
    assert _same(last.theta.critic, after.theta.critic)
    assert not _same(last.theta.actor, after.theta.actor)


def test_without_federated_evaluation_critics_stay_apart_and_do_not_travel():
    algorithm = deep_fapi_without_federated_evaluation(**SMALL)(CARTS)
    play = fused("map")(algorithm, CARTS, sampled_return(1)(algorithm, CARTS), 1)
    state, _ = play.init([0])
    critic = state.clients.memory.critic[0].kernel[0]
    assert np.array_equal(critic[0], critic[1])
    state, _ = play.advance(state, 0, 1)
    critic = state.clients.memory.critic[0].kernel[0]
    assert not np.array_equal(critic[0], critic[1])
    assert jax.tree.structure(state.server.theta) == jax.tree.structure(algorithm.init(jax.random.key(0)).theta)
    assert not jax.tree.leaves(state.server.theta.critic)


@pytest.mark.parametrize("method", [deep_fapi_with_federated_evaluation, deep_fapi_without_federated_evaluation])
def test_engines_agree_with_partial_participation(method):
    algorithm = method(**SMALL, selection=uniform(2))
    engines = fused("map"), one_at_a_time()
    exact, plain = (end_state(algorithm, engine, CARTS, sampled_return(1), rounds=2) for engine in engines)
    assert exact == plain


def _same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
