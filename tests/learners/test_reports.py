"""What clients report, each number by hand: episodes, the critic's fit, importance weights, and means over local steps."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.actor_critics import CART

from fedrl.learners.improvement import Batch
from fedrl.learners.ppo import REPORTS as PPO_REPORTS
from fedrl.learners.ppo import report as ppo_report
from fedrl.learners.reports import (
    added,
    critic_fit,
    ended_episodes,
    first_episodes,
    importance,
    means,
    measured,
    nothing,
)
from fedrl.learners.surrogates import adaptive_kl, clipped
from fedrl.learners.tac import report as tac_report
from fedrl.learners.tac import reports as tac_reports
from fedrl.learners.trpo import report as trpo_report
from fedrl.learners.trpo import reports as trpo_reports
from fedrl.policies.mlp import mlp
from fedrl.policies.network import Layer
from fedrl.types import Trajectory


def rows(reward, terminated, truncated, alive=None) -> Trajectory:
    reward, terminated, truncated = np.array(reward, np.float32), np.array(terminated, bool), np.array(truncated, bool)
    alive = np.ones_like(terminated) if alive is None else np.array(alive, bool)
    return Trajectory(
        reward, np.zeros_like(terminated, int), *map(jnp.asarray, (reward, alive, terminated, truncated)), reward
    )


# the first row: an episode of 2 steps that is over, one of 3 whose time is up, one that the row's end cuts;
# the second: one of 6 steps, over at the very last; the third: one that the row's end cuts
SEEN = rows(
    [[1, 2, 4, 8, 16, 32], [1, 1, 1, 1, 1, 5], [100, 100, 100, 100, 100, 100]],
    [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]],
    [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]],
)


def test_episodes_that_ended():
    found = means(ended_episodes(SEEN))
    assert float(found["episode_return"]) == pytest.approx((3 + 28 + 10) / 3)
    assert float(found["episode_length"]) == pytest.approx((2 + 3 + 6) / 3)


def test_where_worlds_go_on_the_first_episode_of_a_row_is_left_out():
    """Only the second of the first row began in the roll-out and ended there."""
    found = means(ended_episodes(SEEN, goes_on=True))
    assert float(found["episode_return"]) == 28
    assert float(found["episode_length"]) == 3


def test_none_ended():
    no, reward = np.zeros((2, 3)), np.ones((2, 3))
    found = means(ended_episodes(rows(reward, no, [[0, 0, 1], [0, 0, 1]])))
    assert np.isnan(float(found["episode_return"]))
    assert np.isnan(float(found["episode_length"]))


def test_rows_of_one_episode_each():
    trajectory = rows([[1, 2, 0], [3, 4, 5]], [[0, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]], [[1, 1, 0], [1, 1, 1]])
    found = means(first_episodes(trajectory))
    assert float(found["episode_return"]) == (3 + 12) / 2
    assert float(found["episode_length"]) == (2 + 3) / 2


TARGET = jnp.array([1.0, 4.0, -2.0, 5.0])


def test_a_perfect_critic_explains_all():
    found = critic_fit(TARGET, TARGET, TARGET + jnp.array([1.0, -3.0, 0.0, 0.0]), unit=0.1)
    assert float(found["explained_variance"]) == 1.0
    assert float(found["value_loss"]) == pytest.approx(0.025)


def test_a_constant_critic_explains_nothing():
    found = critic_fit(TARGET, jnp.full(4, 7.0), TARGET)
    assert float(found["explained_variance"]) == pytest.approx(0.0, abs=1e-6)
    assert float(found["value_loss"]) == 0.0


def test_by_hand_what_is_explained():
    value = np.array([0.0, 3.0, -1.0, 7.0])
    wanted = 1 - np.var(np.asarray(TARGET) - value) / np.var(np.asarray(TARGET))
    found = critic_fit(TARGET, jnp.asarray(value, jnp.float32), TARGET)
    assert float(found["explained_variance"]) == pytest.approx(wanted, rel=1e-5)


def test_targets_that_are_all_alike_cannot_be_explained():
    known = critic_fit(jnp.ones(3), jnp.array([1.0, 2.0, 3.0]), jnp.ones(3))
    assert np.isnan(float(means(measured(known))["explained_variance"]))


def test_importance_weights():
    found = importance(jnp.array([1.0, 2.0, 5.0]))
    assert float(found["mean_weight"]) == pytest.approx(8 / 3)
    assert float(found["largest_weight"]) == 5.0
    assert float(found["effective_share"]) == pytest.approx(64 / (3 * 30))
    assert float(importance(jnp.ones(7))["effective_share"]) == 1.0
    assert float(importance(jnp.array([0.0, 0.0, 3.0, 0.0]))["effective_share"]) == 0.25


def test_means_over_local_steps_leave_out_what_is_not_finite():
    report = nothing(("a", "b"))
    for a, b in ((1.0, np.nan), (5.0, np.inf), (np.nan, np.nan)):
        report = added(report, measured({"a": a, "b": b}))
    found = means(report)
    assert float(found["a"]) == 3.0
    assert np.isnan(float(found["b"]))
    assert all(value.dtype == jnp.float32 for value in found.values())


def test_a_step_must_measure_what_was_announced():
    with pytest.raises(ValueError, match=r"a local step measured \['b'\] where its learner announced \['a'\]"):
        added(nothing(("a",)), measured({"b": 1.0}))


POLICY = mlp()(CART)  # linear: two logits
DRAWN = np.random.default_rng(0)
OBS = DRAWN.normal(size=(5, 4))
CHOICE = np.array([0, 1, 1, 0, 1])
ADVANTAGE = np.array([1.0, -2.0, 0.5, -0.3, 0.8])
OLD, NEW = (DRAWN.normal(size=(4, 2)) for _ in range(2))


def log_pi(kernel: np.ndarray) -> np.ndarray:
    logits = OBS @ kernel
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def actor(kernel: np.ndarray):
    return (Layer(jnp.asarray(kernel, jnp.float32), jnp.zeros(2)),)


def batch() -> Batch:
    numbers = OBS, log_pi(OLD)[np.arange(5), CHOICE], ADVANTAGE, ADVANTAGE
    obs, log_prob, advantage, target = (jnp.asarray(x, jnp.float32) for x in numbers)
    return Batch(obs, jnp.asarray(CHOICE, jnp.int32), log_prob, advantage, target)


RHO = np.exp(log_pi(NEW) - log_pi(OLD))[np.arange(5), CHOICE]
KL = (np.exp(log_pi(OLD)) * (log_pi(OLD) - log_pi(NEW))).sum(axis=1)
PROBABILITY = np.exp(log_pi(NEW))
ENTROPY = -(PROBABILITY * log_pi(NEW)).sum(axis=1).mean()


def agree(found: dict, wanted: dict) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-5), name


def test_ppo_with_clipped_ratios():
    outside = (RHO < 0.5) | (RHO > 1.5)
    assert 0 < outside.sum() < 5
    gain = np.minimum(RHO * ADVANTAGE, np.clip(RHO, 0.5, 1.5) * ADVANTAGE)
    found = ppo_report(POLICY, clipped(0.5), actor(OLD), actor(NEW), jnp.ones(()), batch())
    agree(found, {"policy_loss": -gain.mean(), "kl": KL.mean(), "clip_share": outside.mean(), "entropy": ENTROPY})
    assert set(found) == set(PPO_REPORTS)


def test_ppo_with_a_penalty():
    """Its ratios are clipped at 10 only."""
    assert (RHO < 10).all()
    found = ppo_report(POLICY, adaptive_kl(), actor(OLD), actor(NEW), jnp.float32(2.0), batch())
    loss = -(RHO * ADVANTAGE - 2.0 * KL).mean()
    agree(found, {"policy_loss": loss, "kl": KL.mean(), "clip_share": 0.0, "entropy": ENTROPY})


def test_trpo():
    found = trpo_report(POLICY, actor(OLD), actor(NEW), batch())
    gain = (RHO * ADVANTAGE).mean() - ADVANTAGE.mean()
    agree(found, {"surrogate_gain": gain, "kl": KL.mean(), "entropy": ENTROPY})
    assert {*found, "accepted", "backtracks"} == set(trpo_reports(POLICY))


def test_tac():
    found = tac_report(POLICY, 1.5, actor(OLD), actor(NEW), batch())
    tsallis = ((1 - (PROBABILITY**1.5).sum(axis=1)) / 0.5).mean()
    agree(found, {"policy_loss": -(RHO * ADVANTAGE).mean(), "tsallis_entropy": tsallis, "kl": KL.mean()})
    assert set(found) == set(tac_reports(POLICY))
