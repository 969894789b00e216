"""Training on, alone: what it starts from, that it is the method's own training, and where it cannot be done."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation
from support.small_runs import contents

import fedrl
from fedrl.algorithms.fapi import fapi_with_federated_evaluation
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.core.round import State
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import cart_pole
from fedrl.experiments.apart import apart, check, subset
from fedrl.learners.ppo import ppo
from fedrl.policies.mlp import mlp
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import uniform

STEP = {"eta": 0.5, "local_steps": 2, "horizon": 5}
WHERE = federation(3)
METHOD = pavg(**STEP, selection=uniform(2))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return fedrl.train(METHOD, WHERE, rounds=3, seeds=2, seed=5, out=folder, engine=one_at_a_time())


@pytest.fixture(scope="module")
def personal(trained):
    return fedrl.personalise(trained, 1, rounds=2, engine=one_at_a_time())


def test_it_is_training_of_one_client_from_the_common_policy(trained, personal):
    own = fedrl.load(personal.folder / "client-1")
    for seed in range(2):
        start = jnp.asarray(trained.theta[seed])
        method = pavg(**STEP, policy=softmax_table(start=lambda key, shape, start=start: start))
        alone = subset(WHERE, np.array([1]))
        wanted = fedrl.train(method, alone, rounds=2, seed=5 + seed, engine=one_at_a_time())
        np.testing.assert_allclose(own.theta["theta/server/theta"][seed], wanted.theta[0], rtol=1e-6)
        np.testing.assert_allclose(personal.returns["personal"][seed, 0], wanted.returns[0, 0], rtol=1e-5)
        scratch = fedrl.train(pavg(**STEP), alone, rounds=2, seed=5 + seed, engine=one_at_a_time())
        np.testing.assert_allclose(personal.returns["alone"][seed, 0], scratch.returns[0, 0], rtol=1e-5)
    np.testing.assert_allclose(personal.returns["common"], trained.returns[:, 1:2], rtol=1e-5)
    assert personal.env_steps == {"personal": 2 * 2 * 5, "alone": 2 * 2 * 5}


def test_summary_has_standard_errors_over_seeds(personal):
    (row,) = personal.summary()
    for kind, returns in personal.returns.items():
        assert row[kind]["mean"] == pytest.approx(returns.mean())
        assert row[kind]["se"] == pytest.approx(abs(returns[0, 0] - returns[1, 0]) / 2)


def test_called_again_it_reads_what_is_there(trained, personal):
    before = contents(personal.folder / "training")
    again = fedrl.personalise(trained.folder, 1, rounds=2, engine=one_at_a_time())
    assert contents(personal.folder / "training") == before
    for kind, returns in personal.returns.items():
        np.testing.assert_array_equal(again.returns[kind], returns)


def test_mistakes(trained):
    for wrong in ("0", 1.0, True, []):
        with pytest.raises(ValueError, match="client expects a number or a list of numbers from 0 to 2, got"):
            fedrl.personalise(trained, wrong, rounds=1)
    with pytest.raises(ValueError, match="there is no client 3; the run has 3"):
        fedrl.personalise(trained, 3, rounds=2)
    with pytest.raises(ValueError, match="rounds must be"):
        fedrl.personalise(trained, 1, rounds=0)
    with pytest.raises(ValueError, match="not written to a folder"):
        fedrl.personalise(trained._replace(folder=None), 1, rounds=2)


POLES = fedrl.Federation(cart_pole.environment(max_episode_steps=20), cart_pole.evenly(3, "half_length", 0.3, 0.9))


def first_state(algorithm, where, seeds: int) -> State:
    def begin(seed):
        key = jax.random.key(seed)
        return State(key, algorithm.init(key), where.enrol(where.shared(), key, algorithm))

    return jax.vmap(begin)(jnp.arange(7, 7 + seeds, dtype=jnp.uint32))


@pytest.mark.parametrize("filters", ["own", "pooled"])
def test_it_starts_with_the_filters_and_the_memory_of_its_client(filters):
    method = fedavg(ppo(policy=mlp(4), value=(4,), steps=20, num_envs=1, filters=filters))
    algorithm = method(POLES)
    state = first_state(algorithm, POLES, 2)
    server, memory = jax.tree.map(
        lambda x: jnp.arange(x.size, dtype=jnp.float32).reshape(x.shape).astype(x.dtype),
        (state.server, state.clients.memory),
    )
    state = State(state.key, server, state.clients._replace(memory=memory))
    mine = apart(method, POLES, np.array([2, 0]), state, 7)(subset(POLES, np.array([2, 0])))
    own = mine.memory(jnp.int32(0), jax.random.key(8))  # the second seed, client 2
    for got, wanted in zip(
        jax.tree.leaves((own.server.theta, own.memory)),
        jax.tree.leaves(
            (jax.tree.map(lambda x: x[1], state.server.theta), jax.tree.map(lambda x: x[1, 2], state.clients.memory))
        ),
        strict=True,
    ):
        np.testing.assert_array_equal(got, wanted)
    assert own.server.round == 0
    assert mine.opening == ()


def test_which_methods_can_be_continued_apart():
    check(fedsvrpg_m(beta=0.5, first_batch=2, **STEP)(WHERE), WHERE)
    with pytest.raises(ValueError, match="ask clients before they train"):
        check(fapi_with_federated_evaluation()(WHERE), WHERE)


def test_momentum_has_an_opening_from_scratch_only():
    method = fedsvrpg_m(beta=0.5, first_batch=2, **STEP)
    state = first_state(method(WHERE), WHERE, 1)
    part = subset(WHERE, np.array([1]))
    assert [e.name for e in apart(method, WHERE, np.array([1]), None, 7)(part).opening] == ["opening-0"]
    assert apart(method, WHERE, np.array([1]), state, 7)(part).opening == ()
