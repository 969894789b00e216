"""Clipped and noisy uploads: norms and noise measured on one client, whole runs against `plain`, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.engine_runs import end_state
from support.federations import federation

import fedrl
from fedrl import keys, trees
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.channels import gaussian, plain
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import cart_pole
from fedrl.evaluation import exact_return, sampled_return
from fedrl.learners import ppo, trpo
from fedrl.learners.own_critic import own_critic
from fedrl.policies.mlp import mlp
from fedrl.records.description import describe
from fedrl.types import Cohort

KEY = keys.of_seed(3)
COHORT = Cohort(jnp.array([2, 5, 7]), jnp.full(3, 1 / 3), jnp.ones(3, bool), jnp.zeros(3, jnp.int32))
UPLOAD = {"w": jnp.full((3, 4), 1.0), "b": (jnp.array([0.0, -2.0, 0.0]),)}  # of norm 4
FOUR = federation(4)
STEPS = {"eta": 0.1, "local_steps": 3, "horizon": 10, "batch": 2}


def sent(channel, upload=UPLOAD, slot=1, key=KEY):
    return channel.encode(upload, COHORT, slot, key)


def flat(tree) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)])


@pytest.mark.parametrize(("clip", "norm"), [(0.5, 0.5), (3.0, 3.0), (4.0, 4.0), (5.0, 4.0)])
def test_an_upload_is_no_longer_than_the_clip(clip, norm):
    """One factor for all leaves."""
    clipped = sent(gaussian(clip, 0.0))
    assert float(trees.squared_norm(clipped)) ** 0.5 == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(flat(clipped), flat(UPLOAD) * norm / 4.0, rtol=1e-6)


def test_an_upload_of_zeros_stays_zeros():
    zeros = trees.zeros_like(UPLOAD)
    assert not flat(sent(gaussian(1.0, 0.0), zeros)).any()
    assert sent(gaussian(1.0, 1.0), ()) == ()


def test_without_noise_a_short_upload_is_sent_as_it_is():
    """Every bit, the sign of zero among them."""
    upload = {"w": jnp.array([1e-30, -0.0, 3.0], jnp.float32)}
    assert np.asarray(sent(gaussian(4.0, 0.0), upload)["w"]).tobytes() == np.asarray(upload["w"]).tobytes()


def test_the_noise_by_its_moments():
    """40000 entries: mean 0 and deviation noise * clip = 1.5 within four standard errors; no entry like another."""
    count = 40_000
    upload = {"w": jnp.zeros((200, 100)), "b": jnp.zeros(20_000)}
    noise = flat(sent(gaussian(3.0, 0.5), upload))
    assert abs(noise.mean()) < 4 * 1.5 / count**0.5
    assert abs(noise.std() - 1.5) < 4 * 1.5 / (2 * count) ** 0.5
    assert np.mean(np.abs(noise) < 1.5) == pytest.approx(0.6827, abs=4 * (0.6827 * 0.3173 / count) ** 0.5)
    assert abs(np.corrcoef(noise[: count // 2], noise[count // 2 :])[0, 1]) < 4 / (count / 2) ** 0.5


def test_the_noise_is_added_after_clipping():
    channel = gaussian(2.0, 0.1)
    noise = flat(sent(channel, trees.zeros_like(UPLOAD)))
    np.testing.assert_allclose(flat(sent(channel)), flat(UPLOAD) / 2.0 + noise, atol=1e-6)


def test_every_client_draws_its_own():
    """By its id, wherever it is in the cohort; and anew in every exchange."""
    channel = gaussian(1.0, 1.0)
    first, second = (flat(sent(channel, slot=slot)) for slot in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.9
    moved = COHORT._replace(ids=jnp.array([0, 1, 5]))
    np.testing.assert_array_equal(flat(channel.encode(UPLOAD, moved, 2, KEY)), second)
    assert (flat(sent(channel, slot=1, key=keys.of(KEY, "later"))) != second).all()


def test_what_is_not_finite_is_still_noticed():
    """The server's check sees it, whatever the clip."""
    for value in (jnp.nan, jnp.inf):
        assert not np.isfinite(flat(sent(gaussian(1.0, 0.5), {"w": jnp.array([value, 1.0])}))).all()


def test_the_server_changes_nothing():
    assert gaussian(1.0, 1.0).decode(UPLOAD, COHORT, KEY) is UPLOAD


@pytest.mark.parametrize("engine", [fused("map"), one_at_a_time()], ids=["fused", "one_at_a_time"])
def test_without_noise_and_far_from_the_clip_a_run_is_that_of_plain(engine):
    thetas = [
        fedrl.train(pavg(**STEPS, channel=channel), FOUR, rounds=4, engine=engine).theta.tobytes()
        for channel in (plain, gaussian(1e6, 0.0))
    ]
    assert thetas[0] == thetas[1]


def test_engines_agree_to_the_bit():
    method = pavg(**STEPS, channel=gaussian(0.05, 0.3))
    one, other = (end_state(method, engine, FOUR, exact_return()) for engine in (fused("map"), one_at_a_time()))
    assert one == other


def test_the_mean_of_a_cohort_is_less_noisy():
    """One round of four clients from theta = 0: deviation noise * clip / 2 in each entry of theta."""
    where = federation(4, states=30, actions=20)
    noise, clip = 20.0, 0.01
    run = fedrl.train(pavg(**STEPS | {"local_steps": 1}, channel=gaussian(clip, noise)), where, rounds=1)
    assert np.asarray(run.theta).std() == pytest.approx(noise * clip / 2, rel=4 / (2 * 600) ** 0.5)


POLES = fedrl.Federation(cart_pole.environment(), cart_pole.evenly(2, "half_length", 0.3, 0.7))
TINY = {"policy": mlp(4), "value": (4,), "steps": 16, "num_envs": 2}
FILTERS_OFF = {"filter_observations": False, "filter_rewards": False}


@pytest.mark.parametrize(
    "learner",
    [
        ppo(**TINY),
        ppo(**TINY, filter_rewards=False),
        ppo(**TINY, filter_observations=False),
        trpo(**TINY),
        own_critic(ppo(**TINY)),
    ],
)
def test_pooled_filters_are_refused(learner):
    """At any noise: clipping breaks counts, too. Channels that do not say so still carry them."""
    for noise in (0.0, 1.0):
        with pytest.raises(ValueError, match='clips uploads and adds noise .* break the filters; .*filters="own"'):
            fedavg(learner, channel=gaussian(1.0, noise))(POLES)
    assert fedavg(learner, channel=gaussian(1.0, 0.0)._replace(perturbs=None))(POLES).exchanges


@pytest.mark.parametrize(
    "learner",
    [ppo(**TINY, filters="own", warm_up=16), own_critic(ppo(**TINY, **FILTERS_OFF, warm_up=16))],
    ids=["own filters", "no filters, own critic"],
)
def test_filters_at_home_or_off_are_fine(learner):
    """The opening, which fills memories and filters, moves no parameters: there is nothing to add noise to."""
    method = fedavg(learner, channel=gaussian(0.1, 0.1))
    algorithm = method(POLES)
    play = fused("map")(algorithm, POLES, sampled_return(1, horizon=5)(algorithm, POLES))
    began, _ = play.init([0])
    first = algorithm.init(keys.of(keys.of_seed(0), "init"))
    np.testing.assert_array_equal(flat(began.server.theta), flat(first.theta))
    after, metrics = play.advance(began, 0, 1)
    assert np.isfinite(flat(after.server.theta)).all()
    assert int(metrics["train/answered"][0, 0]) == 2
    play.close()


def test_whole_numbers_are_refused():
    with pytest.raises(TypeError, match=r"can only hide floats, .* uploads int32\[2\], which would travel as it is"):
        sent(gaussian(1.0, 1.0), {"count": jnp.array([1, 2], jnp.int32)})


def test_a_run_is_described_by_its_clip_and_noise():
    """Two runs that differ in them are different runs; runs without noise are described as they always were."""
    assert describe(gaussian(1.0, 0.5))["encode"] == {"function": "gaussian", "clip": 1.0, "noise": 0.5}
    assert set(describe(plain)) == {"kind", "encode", "decode"}
