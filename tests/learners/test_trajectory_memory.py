"""Gradient learners that remember their episodes, so that every selection can choose among their clients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.engine_runs import end_state
from support.federations import federation

from fedrl import keys
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedhapg_m import fedhapg_m
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.core.client import all_steps
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import exact_return
from fedrl.federations.federation import Profile
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.q_learning import q_learning
from fedrl.learners.reinforce import reinforce, reward_to_go, scores
from fedrl.policies.greedy import greedy_table
from fedrl.records.tensors import to_bytes
from fedrl.selection.by_loss import gradient_norm, power_of_choice
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.types import Client, Model

CLIENTS, GAMMA, HORIZON, BATCH = 4, 0.5, 5, 2
WHERE = federation(CLIENTS, gamma=GAMMA)
STEPS = {"eta": 0.4, "local_steps": 3, "horizon": HORIZON, "batch": BATCH}
METHODS = {"fedsvrpg_m": fedsvrpg_m, "fedhapg_m": fedhapg_m}
SELECTIONS = {
    "fedpohcs": fedpohcs(3, 2, sweeps=5),
    "power of choice": power_of_choice(3, 2),
    "gradient norm": gradient_norm(3, 2),
}


@pytest.fixture(scope="module")
def after():
    """The learner, its theta, and a client after an opening and one round of three local steps, of which two are kept."""
    learner = gradient_learner(reinforce(horizon=HORIZON, batch=BATCH), eta=0.4, local_steps=3, remember=2)(
        WHERE.environment
    )
    key, theta = keys.of_seed(3), learner.init(keys.of_seed(3)) + 0.1
    env_params = jax.tree.map(lambda x: jnp.asarray(x)[1], WHERE.env_params)
    client = Client(jnp.int32(1), env_params, Profile(jnp.ones(())), learner.memory(jnp.int32(1), key))
    assert not np.asarray(client.memory.alive).any()
    for local in (*learner.opening, learner.local):
        state = jax.jit(lambda c, local=local: all_steps(local, Model(theta, jnp.int32(0)), c, key))(client)
        client = client._replace(memory=local.finish(state, client)[1])
        assert np.asarray(client.memory.alive).all()  # these tasks never end
    return learner, theta, client


def test_the_last_local_steps_are_remembered(after):
    learner, theta, client = after
    recent = learner.recent(theta, client)
    assert recent.reward.shape == (2 * BATCH, HORIZON)
    seen = []
    sample = learner.local.sample

    def noting(state, client, key):
        seen.append(sample(state, client, key))
        return seen[-1]

    with jax.disable_jit():
        all_steps(learner.local._replace(sample=noting), Model(theta, jnp.int32(0)), client, keys.of_seed(3))
    assert len(seen) == 3
    for kept, two, three in zip(*map(jax.tree.leaves, (recent, *seen[1:])), strict=True):
        np.testing.assert_array_equal(kept, np.concatenate([two, three]))


def test_advantages_are_rewards_to_go_less_their_mean(after):
    learner, theta, client = after
    reward = np.asarray(client.memory.reward, np.float64)
    to_go = np.zeros_like(reward)
    for t in reversed(range(HORIZON)):
        to_go[:, t] = reward[:, t] + (GAMMA * to_go[:, t + 1] if t + 1 < HORIZON else 0.0)
    np.testing.assert_allclose(learner.advantages(theta, client), to_go - to_go.mean(), rtol=1e-5, atol=1e-6)


def test_the_loss_is_minus_the_return_and_its_gradient_that_of_reinforce(after):
    learner, theta, client = after
    loss, slope = jax.value_and_grad(learner.loss)(theta, client)
    recent, policy = client.memory, learner.policy
    np.testing.assert_allclose(loss, -np.mean(np.asarray(recent.reward) @ GAMMA ** np.arange(HORIZON)), rtol=1e-5)
    to_go = reward_to_go(WHERE.environment, policy, theta, recent)
    gradient = scores(policy, theta, recent, to_go)(theta, jnp.full((2 * BATCH,), 0.5 / BATCH))
    np.testing.assert_allclose(slope, -gradient, rtol=1e-4, atol=1e-6)
    assert float(jnp.abs(gradient).max()) > 0.01


@pytest.mark.parametrize(
    ("method", "selection"),
    [("fedsvrpg_m", name) for name in SELECTIONS] + [("fedhapg_m", "fedpohcs")],
)
def test_every_selection_trains_the_same_on_both_engines(method, selection):
    algorithm = METHODS[method](beta=0.3, **STEPS, selection=SELECTIONS[selection], remember=1)
    run = [end_state(algorithm, engine, WHERE, exact_return(), rounds=2) for engine in (one_at_a_time(), fused("map"))]
    assert run[0] == run[1]


def test_one_phase_trains_the_same_on_both_engines():
    """All bytes but those of "train/shared_mass", a log entry that XLA rounds differently in one program."""
    method = fedsvrpg_m(beta=0.3, **STEPS, selection=fedpohcs(3, 2, sweeps=5, phases=1), remember=1)
    ends, shared = [], []
    for engine in (one_at_a_time(), fused("map")):
        algorithm = method(WHERE)
        play = engine(algorithm, WHERE, exact_return()(algorithm, WHERE), 2)
        state, log = play.advance(play.init([5])[0], 0, 2)
        shared.append(log.pop("train/shared_mass"))
        ends.append([to_bytes(tree) for tree in (state, log)])
        play.close()
    assert ends[0] == ends[1]
    np.testing.assert_allclose(*shared, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_remembering_does_not_change_training(method):
    def theta(remember: int) -> np.ndarray:
        algorithm = METHODS[method](beta=0.3, **STEPS, remember=remember)(WHERE)
        engine = fused("map")(algorithm, WHERE, exact_return()(algorithm, WHERE), 1)
        state, _ = engine.advance(engine.init([0])[0], 0, 3)
        assert bool(jax.tree.leaves(state.clients.memory)) == bool(remember)
        return np.asarray(state.server.theta)

    np.testing.assert_array_equal(theta(2), theta(0))
    assert np.abs(theta(0)).max() > 0.01


def test_what_cannot_be_remembered():
    with pytest.raises(ValueError, match="remember must be .* at least 0, got -1"):
        fedsvrpg_m(beta=0.5, **STEPS, remember=-1)
    learner = gradient_learner(q_learning(samples=2), eta=0.1, local_steps=1, policy=greedy_table(), remember=1)
    with pytest.raises(ValueError, match="remember=1 stores episodes, and this direction samples none; leave"):
        learner(WHERE.environment)
    with pytest.raises(ValueError, match="this learner remembers nothing; .*pass remember=1 to fedsvrpg_m"):
        fed_q_learning(eta=0.1, local_steps=1, samples=2, selection=power_of_choice(3, 2))(WHERE)
