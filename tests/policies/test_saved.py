"""The saved policy is the policy: its file alone earns what the run reported, also for strangers (about 60 s)."""

import json
from functools import partial

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import stranger
from support.federations import federation

import fedrl
from fedrl.algorithms.alone import alone
from fedrl.algorithms.fapi import fapi_with_federated_evaluation
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.core.round import State
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import cart_pole, mountain_car
from fedrl.environments.protocol import Discrete
from fedrl.environments.spaces import describe
from fedrl.evaluation import sampled_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.optimizers import constant
from fedrl.learners.ppo import ppo
from fedrl.learners.reinforce import reinforce
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.filtered import Moments
from fedrl.policies.greedy import greedy_table
from fedrl.policies.mlp import mlp
from fedrl.policies.probabilities import probability_table
from fedrl.policies.saved import from_parts, read
from fedrl.policies.softmax import softmax_table
from fedrl.records import policy_file
from fedrl.records.tensors import named_leaves, save_tree
from fedrl.selection.participation import cohort
from fedrl.selection.selection import Selection

EPISODES = 20
SMALL = {"policy": mlp(16, last=0.01), "value": (16,), "steps": 1000, "num_envs": 4, "filter_rewards": False}
QUICK = SMALL | {"steps": 200, "epochs": 2, "minibatch": 50, "critic_epochs": 2, "critic_minibatch": 50}


def earned(act, env: gym.Env, episodes: int = EPISODES) -> np.ndarray:
    """Return of each episode in Gymnasium's own environment."""
    found = []
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            obs, reward, done, cut, _ = env.step(act(obs))
            total, over = total + float(reward), done or cut
        found.append(total)
    return np.array(found)


def about_the_same(reported: float, found: np.ndarray) -> bool:
    """Two means over as many episodes, within four standard errors of their difference, or a hundredth."""
    error = 2**0.5 * found.std(ddof=1) / len(found) ** 0.5
    return abs(reported - found.mean()) <= 4 * error + 0.01 * abs(reported)


def hoppers():
    mujoco = pytest.importorskip("fedrl.environments.control.mujoco")
    from fedrl.environments.control.mujoco_tasks import HOPPER, params

    return fedrl.Federation(mujoco.hopper(threads=1), params(HOPPER, noise=np.full(2, HOPPER.noise)))


PLACES = {
    "CartPole-v1": lambda: fedrl.Federation(cart_pole.environment(), cart_pole.start_ranges(2, 0.05, 0.05)),
    "MountainCarContinuous-v0": lambda: fedrl.Federation(
        mountain_car.environment(), mountain_car.params(shift=jnp.zeros(2))
    ),
    "Hopper-v5": hoppers,
    "Pendulum-v1": lambda: fedrl.gymnasium(lambda client: gym.make("Pendulum-v1", g=9.0), 2),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_file_alone_earns_what_the_run_reported(name, tmp_path):
    where = PLACES[name]()
    engine = fused("map") if name in ("CartPole-v1", "MountainCarContinuous-v0") else one_at_a_time()
    run = fedrl.train(
        fedavg(ppo(**QUICK, learning_rate=constant(3e-3))), where, rounds=2, seeds=2, eval_every=2, out=tmp_path,
        engine=engine, evaluation=sampled_return(EPISODES, deterministic=True),
    )  # fmt: skip
    loaded = fedrl.load(tmp_path)
    np.testing.assert_array_equal(loaded.returns, run.returns)
    env = gym.make(name, **({"g": 9.0} if name == "Pendulum-v1" else {}))
    for seed in range(2):
        act = stranger.policy(tmp_path / "policy.safetensors", seed)
        assert about_the_same(run.returns[seed].mean(), earned(act, env))
        seen = np.stack([env.observation_space.sample() for _ in range(50)]).clip(-10, 10)
        for policy in (run.policy(seed=seed), loaded.policy(seed=seed)):
            one_by_one = [act(obs) for obs in seen]
            np.testing.assert_allclose(policy(seen), one_by_one, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(policy(seen[0]), one_by_one[0], rtol=1e-4, atol=1e-5)
            assert env.action_space.contains(policy(seen[0]))


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two identical CartPoles of which only client 0 ever trains, and how they fare."""

    def only_the_first(where, learner):
        return Selection(lambda server, key: cohort(where, jnp.arange(1, dtype=jnp.int32)))

    folder = tmp_path_factory.mktemp("twins")
    learner = ppo(**SMALL, learning_rate=constant(3e-3))
    run = fedrl.train(
        fedavg(learner, selection=only_the_first), PLACES["CartPole-v1"](), rounds=15, seeds=2, eval_every=15,
        out=folder, engine=fused("map"), evaluation=sampled_return(40),
    )  # fmt: skip
    return run, folder


def test_a_client_that_never_trained_earns_what_its_twin_earns(twins):
    run, _ = twins
    trained, twin = run.returns.T
    assert trained.min() > 150  # it has learnt something that needs its filters
    np.testing.assert_allclose(twin, trained, rtol=0.2)


def test_so_does_a_client_that_was_never_in_the_federation(twins):
    run, folder = twins
    env = gym.make("CartPole-v1")
    for seed in range(2):
        drawn = run.policy(seed=seed, deterministic=False)
        rng = np.random.default_rng(seed)
        returns = earned(partial(drawn, rng=rng), env, 40)
        np.testing.assert_allclose(returns.mean(), run.returns[seed, 0], rtol=0.2)
        act = stranger.policy(folder / "policy.safetensors", seed)
        assert earned(act, env).mean() > 0.9 * run.returns[seed, 0]  # without noise it does no worse


def saved(method, where):
    """The policy of a run that has not begun, two seeds."""
    algorithm = method(where)
    keys = jax.random.split(jax.random.key(0), 2)
    state = jax.vmap(lambda key: State(key, algorithm.init(key), where.enrol(where.shared(), key, algorithm)))(keys)
    content = policy_file.content(algorithm, where, state, range(7, 9), "test")
    tensors = {name: np.asarray(x) for name, x in named_leaves(content.tensors).items()}
    return algorithm, state, from_parts(tensors, content.header, "test")


def random_table(key, shape):
    return jax.random.normal(key, shape)


def random_rows(key, shape):
    return jax.nn.softmax(2.0 * jax.random.normal(key, shape))


STEP = {"eta": 0.1, "local_steps": 1}
TABLES = {
    "softmax": pavg(**STEP, horizon=3, policy=softmax_table(random_table)),
    "bits": pavg(**STEP, horizon=3, policy=bit_softmax()),
    "probabilities": fapi_with_federated_evaluation(policy=probability_table(random_rows)),
    "greedy": fed_q_learning(**STEP, samples=2, policy=greedy_table(random_table)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_act_as_their_policies_say(name):
    where = federation(2, actions=3)
    algorithm, state, file = saved(TABLES[name], where)
    assert file.header["seeds"] == {"axis": 0, "first": 7, "count": 2}
    chances = np.exp(np.asarray(algorithm.policy.table(jax.tree.map(lambda x: x[1], state.server.theta))).sum(-1))
    chances = np.stack([chances[:, 0], chances[:, 1], chances[:, 2:].sum(axis=1)], axis=1)
    np.testing.assert_array_equal(file.policy(seed=1)(np.arange(4)), chances.argmax(axis=1))
    assert repr(file.policy()) == "Act(discrete observation -> the most likely discrete action)"
    drawn = file.policy(seed=1, deterministic=False)(np.repeat(np.arange(4), 4000), np.random.default_rng(0))
    shares = np.stack([(drawn.reshape(4, -1) == action).mean(axis=1) for action in range(3)], axis=1)
    np.testing.assert_allclose(shares, chances, atol=0.03)


def test_finite_observations_through_a_network():
    where = federation(2, actions=3)
    assert isinstance(where.environment.observations, Discrete)
    learner = gradient_learner(reinforce(horizon=3, batch=1), eta=0.1, local_steps=1, policy=mlp(5))
    algorithm, state, file = saved(fedavg(learner), where)
    theta = jax.tree.map(lambda x: x[0], state.server.theta)
    scores = [
        [float(algorithm.policy.log_probs(theta, jnp.int32(s), jnp.int32(a))[0]) for a in range(3)] for s in range(4)
    ]
    np.testing.assert_array_equal(file.policy()(np.arange(4)), np.argmax(scores, axis=1))
    assert int(file.policy()(2)) == np.argmax(scores[2])


def test_clients_with_policies_of_their_own_are_asked_for_by_number():
    where = PLACES["CartPole-v1"]()
    _, state, file = saved(alone(ppo(**QUICK)), where)
    with pytest.raises(ValueError, match="every client has learnt a policy of its own; pass client=0 to 1"):
        file.policy()
    own = state.clients.memory.theta.actor[0].kernel
    assert file.tensors["clients/theta/actor/0/kernel"].shape == own.shape == (2, 2, 4, 16)
    assert int(file.policy(client=1, seed=1)(np.zeros(4))) in (0, 1)
    with pytest.raises(ValueError, match="client must be a number from 0 to 1, or None for a new client, got 2"):
        file.policy(client=2)
    with pytest.raises(ValueError, match="seed counts the run's seeds from 0 to 1, got 7"):
        file.policy(client=0, seed=7)


def test_filters_of_ones_own_are_saved_and_pooled_for_strangers():
    where = PLACES["CartPole-v1"]()
    algorithm = fedavg(ppo(**QUICK, filters="own"))(where)
    keys = jax.random.split(jax.random.key(0), 1)
    state = jax.vmap(lambda key: State(key, algorithm.init(key), where.enrol(where.shared(), key, algorithm)))(keys)
    rows = [np.random.default_rng(i).normal(100.0 * i, 1.0 + i, (30 + 10 * i, 4)) for i in range(2)]
    moments = [(len(x), x.mean(axis=0), ((x - x.mean(axis=0)) ** 2).sum(axis=0)) for x in rows]
    own = Moments(*(jnp.asarray(np.stack(x), jnp.float32)[None] for x in zip(*moments, strict=True)))
    memory = state.clients.memory._replace(filters=state.clients.memory.filters._replace(obs=own))
    state = state._replace(clients=state.clients._replace(memory=memory))
    content = policy_file.content(algorithm, where, state, range(1), "test")
    everything = np.concatenate(rows)
    assert content.tensors["pooled"]["total"] == [70]
    np.testing.assert_allclose(content.tensors["pooled"]["mean"][0], everything.mean(axis=0), rtol=1e-5)
    squares = ((everything - everything.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(content.tensors["pooled"]["squares"][0], squares, rtol=1e-5)
    file = from_parts({k: np.asarray(x) for k, x in named_leaves(content.tensors).items()}, content.header, "test")
    for client, of in ((0, rows[0]), (1, rows[1]), (None, everything)):
        np.testing.assert_allclose(file.policy(client).moments.mean, of.mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("total", [0.0, 1.0, 2.0])
def test_a_stranger_filters_as_the_policy_does_before_two_things_were_seen(total, tmp_path):
    """Clipped but not scaled: the first action is that of the larger observation, as far as the clip lets it."""
    tensors = {
        "kernel": np.eye(2, dtype=np.float32)[None], "bias": np.zeros((1, 2), np.float32),
        "total": np.float32([total]), "mean": np.float32([[3.0, 0.0]]), "squares": np.float32([[8.0, 2.0]]),
    }  # fmt: skip
    header = {
        "policy": {"kind": "categorical-mlp", "layers": [2, 2], "filter": {"clip": 5.0, "epsilon": 1e-8}},
        "tensors": {
            "parameters": {"0/kernel": "kernel", "0/bias": "bias"},
            "filter": {name: name for name in ("total", "mean", "squares")},
        },
        "observations": describe(gym.spaces.Box(-np.inf, np.inf, (2,))),
        "actions": describe(gym.spaces.Discrete(2)),
        "seeds": {"axis": 0, "first": 0, "count": 1},
    }
    text = {"format": "fedrl-policy/1", "clients": "1"} | {name: json.dumps(x) for name, x in header.items()}
    save_tree(tmp_path / "policy.safetensors", tensors, text)
    act, theirs = read(tmp_path / "policy.safetensors").policy(), stranger.policy(tmp_path / "policy.safetensors", 0)
    for seen in np.random.default_rng(0).normal(3.0, 4.0, (200, 2)).astype(np.float32):
        assert act(seen) == theirs(seen)


def test_what_is_no_policy_file_is_said_in_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="has no policy.safetensors; a run writes it when it is finished"):
        fedrl.load(tmp_path)
    (tmp_path / "policy.safetensors").write_bytes(b"garbage")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        fedrl.load(tmp_path)
