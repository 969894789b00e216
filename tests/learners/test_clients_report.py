"""Whole clients and what they report: means over local steps, through every wrapper, and training none the wiser (1 min)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.actor_critics import GAMMA, LAM, PASSES, POLES, STEPS, TINY, UNFILTERED, Bench, forward
from support.federations import environment, random_mdps

from fedrl import keys, trees
from fedrl.algorithms.alone import alone
from fedrl.core.client import all_steps, learn
from fedrl.federations.federation import Federation
from fedrl.learners.decay import counted
from fedrl.learners.gradient_steps import Direction, gradient_learner, gradient_update
from fedrl.learners.hapg import hapg
from fedrl.learners.own_critic import own_critic
from fedrl.learners.ppo import ppo
from fedrl.learners.proximal import proximal
from fedrl.learners.reinforce import reinforce
from fedrl.learners.reports import EPISODES, WEIGHTS
from fedrl.learners.svrpg import Anchor, svrpg
from fedrl.policies.softmax import softmax_table
from fedrl.types import Client, Model

ENV = environment()
TABLE = softmax_table()(ENV)
WORLD = jax.tree.map(lambda x: x[0], random_mdps(1))
CLIENT = Client(jnp.int32(0), WORLD, (), ())
THETA, THETA_PREV = (jax.random.normal(keys.of_seed(seed), (4, 3)) for seed in (1, 2))
ANCHOR = Anchor(THETA, THETA_PREV, jnp.ones((4, 3)))
KEY = keys.of_seed(3)
BATCH, HORIZON = 3, 4


def weights(trajectory, theta_new, theta) -> np.ndarray:
    """Products of the ratios of probabilities along each episode, in float64."""
    tables = []
    for table in (theta_new, theta):
        power = np.exp(np.asarray(table, np.float64))
        tables.append(power / power.sum(axis=1, keepdims=True))
    obs, choice = np.asarray(trajectory.obs), np.asarray(trajectory.choice)
    return np.array([np.prod(tables[0][s, a] / tables[1][s, a]) for s, a in zip(obs, choice, strict=True)])


def test_svrpg_by_hand():
    """Two local steps; each number is the mean of the two."""
    direction = svrpg(beta=0.3, horizon=HORIZON, batch=BATCH)(ENV, TABLE)
    update = gradient_update(direction, eta=0.5, local_steps=2)
    local, wanted = update.start(ANCHOR, CLIENT, KEY), []
    for y in range(2):
        here = keys.of(KEY, "step", y)
        trajectory = update.sample(local, CLIENT, here)
        w, reward = weights(trajectory, THETA_PREV, local.theta), np.asarray(trajectory.reward, np.float64)
        share = w.sum() ** 2 / (BATCH * (w**2).sum())
        wanted.append([reward.sum() / BATCH, HORIZON, w.mean(), w.max(), share])
        local = learn(update, local, trajectory, CLIENT, here)
    found = update.metrics(local, CLIENT)
    assert set(found) == {*EPISODES, *WEIGHTS}
    by_hand = dict(zip((*EPISODES, *WEIGHTS), np.mean(wanted, axis=0), strict=True))
    for name, value in by_hand.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-4), name
    assert by_hand["effective_share"] < 0.9  # not all alike here
    same = update.metrics(jax.jit(lambda: all_steps(update, ANCHOR, CLIENT, KEY))(), CLIENT)
    assert all(float(same[name]) == pytest.approx(float(found[name]), rel=1e-5) for name in found)


@pytest.mark.parametrize("settings", [{"beta": 1.0}, {"beta": 0.5, "corrected": False}])
def test_where_svrpg_weighs_nothing_it_reports_no_weights(settings):
    assert svrpg(horizon=2, **settings)(ENV, TABLE).reports == EPISODES


def test_hapg_by_hand():
    """The weights are of theta against theta(alpha), under which was acted."""
    build = [hapg(beta=beta, horizon=HORIZON, batch=BATCH)(ENV, TABLE) for beta in (0.5, 1.0)]
    trajectory = build[0].sample(THETA, ANCHOR, CLIENT, KEY)
    alpha = float(jax.random.uniform(keys.of(KEY, "alpha")))
    w = weights(trajectory, THETA, np.asarray(THETA) + alpha * np.asarray(THETA_PREV - THETA))
    (_, _, report), (_, _, whole) = (x.learn(THETA, ANCHOR, trajectory, CLIENT, KEY) for x in build)
    assert float(report["mean_weight"].total) == pytest.approx(w.mean(), rel=1e-4)
    assert float(report["largest_weight"].total) == pytest.approx(w.max(), rel=1e-4)
    assert float(report["effective_share"].total) == pytest.approx(w.sum() ** 2 / (BATCH * (w**2).sum()), rel=1e-4)
    assert report.keys() == set(build[0].reports) == whole.keys() == set(build[1].reports)


def test_ppo_by_hand():
    """Two iterations: the fit of V and the episodes, from what the client saw and the critics it had."""
    bench = Bench(ppo(**TINY | PASSES | UNFILTERED))
    local, fits, ended = bench.begin(), [], []
    for number in range(2):
        before = local.theta.critic
        trajectory, local = bench.iterate(local, number)
        target, value = targets(trajectory, before)
        after = forward(local.theta.critic, np.asarray(trajectory.obs, np.float64))[..., 0] / (1 - GAMMA)
        loss = np.mean(((1 - GAMMA) * (after - target)) ** 2)
        fits.append([loss, 1 - np.var(target - value) / np.var(target)])
        ended += lengths(trajectory)
    found = bench.learner.local.metrics(local, bench.client)
    assert float(found["value_loss"]) == pytest.approx(np.mean(fits, axis=0)[0], rel=1e-3)
    assert float(found["explained_variance"]) == pytest.approx(np.mean(fits, axis=0)[1], rel=1e-3, abs=1e-4)
    assert len(ended) > 4
    assert float(found["episode_length"]) == pytest.approx(np.mean(ended))
    assert float(found["episode_return"]) == pytest.approx(np.mean(ended))  # one for every step
    assert 0 <= float(found["kl"]) < 0.1
    assert 0 < float(found["entropy"]) <= np.log(2) + 1e-6
    assert {"policy_loss", "clip_share"} < set(found)


def targets(trajectory, critic) -> tuple[np.ndarray, np.ndarray]:
    """Of the critic, [copies, steps], and what it says itself: GAE by its definition plus value."""
    trajectory = jax.tree.map(np.asarray, trajectory)
    value, later = (
        forward(critic, x.astype(np.float64))[..., 0] / (1 - GAMMA) for x in (trajectory.obs, trajectory.after)
    )
    delta = trajectory.reward + GAMMA * np.where(trajectory.terminated, 0.0, later) - value
    found = np.zeros(delta.shape)
    for row, t in np.ndindex(delta.shape):
        factor = 1.0
        for later_t in range(t, delta.shape[1]):
            found[row, t] += factor * delta[row, later_t]
            if trajectory.terminated[row, later_t] or trajectory.truncated[row, later_t]:
                break
            factor *= GAMMA * LAM
    return found + value, value


def lengths(trajectory) -> list[int]:
    """Of the episodes that ended, walking along each row."""
    found = []
    for terminated, truncated in zip(np.asarray(trajectory.terminated), np.asarray(trajectory.truncated), strict=True):
        length = 0
        for t in range(len(terminated)):
            length += 1
            if terminated[t] or (truncated[t] and t < len(terminated) - 1):
                found.append(length)
                length = 0
    return found


def test_counts_ride_beside_what_the_update_reports():
    """Two of three steps, as `steps_of` says; returns are of these two only."""
    learner = gradient_learner(reinforce(horizon=2, batch=2), eta=0.1, local_steps=3)(ENV)
    update = counted(learner.local)._replace(steps_of=lambda client, key: jnp.int32(2))
    found = update.metrics(all_steps(update, Model(THETA, jnp.int32(0)), CLIENT, KEY), CLIENT)
    assert (float(found["learnt"]), float(found["applied"])) == (2.0, 2.0)
    assert set(found) == {"learnt", "applied", *EPISODES}
    two = learner.local._replace(local_steps=2)
    alike = two.metrics(all_steps(two, Model(THETA, jnp.int32(0)), CLIENT, KEY), CLIENT)
    assert float(found["episode_return"]) == pytest.approx(float(alike["episode_return"]), rel=1e-6)


def test_a_proximal_step_reports_what_its_direction_does():
    along = reinforce(horizon=2, batch=2)
    far = Model(THETA + 5.0, jnp.int32(0))
    trajectory = along(ENV, TABLE).sample(THETA, far, CLIENT, KEY)
    plain, pulled = (
        x(ENV, TABLE).learn(THETA, far, trajectory, CLIENT, KEY)[2] for x in (along, proximal(along, mu=1.0))
    )
    assert float(plain["episode_return"].total) == float(pulled["episode_return"].total)


def test_simple_directions_report_nothing():
    ahead = Direction(sample=lambda *_: (), learn=lambda *_: (jnp.ones(()), jnp.int32(1)))
    update = gradient_update(ahead, eta=0.1, local_steps=2)
    assert update.metrics(all_steps(update, Model(jnp.zeros(()), jnp.int32(0)), CLIENT, KEY), CLIENT) == {}


def test_wrappers_of_a_client_pass_on_what_it_reports():
    """Nothing is learnt here, so nothing is measured; but the names are there."""
    inner = ppo(**TINY | PASSES)
    names = set(Bench(inner).begin().report)
    bench = Bench(own_critic(inner))
    assert set(bench.learner.local.metrics(bench.begin(), bench.client)) == names
    home = alone(inner)(Federation(POLES.environment, POLES.env_params))
    client = bench.client._replace(memory=home.memory(jnp.int32(0), KEY))
    local = home.exchanges[-1].local
    found = local.metrics(local.start((), client, KEY), client)
    assert set(found) == names
    assert all(np.isnan(float(value)) for value in found.values())


def test_a_warm_up_reports_nothing():
    bench = Bench(ppo(**TINY | PASSES, warm_up=STEPS))
    (looking,) = bench.learner.opening
    assert looking.metrics(bench.begin(), bench.client) == {}


def client_of_ppo():
    bench = Bench(ppo(**TINY | PASSES, local_steps=2))
    return bench.learner.local, Model(bench.theta, jnp.int32(0)), bench.client


def client_of_svrpg():
    return gradient_update(svrpg(beta=0.3, horizon=6, batch=4)(ENV, TABLE), eta=0.1, local_steps=3), ANCHOR, CLIENT


@pytest.mark.parametrize("client_of", [client_of_ppo, client_of_svrpg])
def test_reporting_leaves_the_upload_as_it_is(client_of):
    """To the bit: the compiler drops a report that nobody takes, and then computes training alone."""
    update, message, client = client_of()

    def half(key, report):
        local = all_steps(update, message, client, key)
        return update.finish(local, client), update.metrics(local, client) if report else {}

    (silent, _), (reporting, found) = (jax.jit(lambda key, x=x: half(key, x))(KEY) for x in (False, True))
    assert found
    assert all(bool(jnp.isfinite(value)) for value in found.values())
    for a, b in zip(jax.tree.leaves(silent), jax.tree.leaves(reporting), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert float(trees.squared_norm(reporting[0])) > 0
