"""Both traffic environments as PettingZoo has them, and what a seed decides (about 15 s)."""

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports a game of PettingZoo's own in its old way
    from pettingzoo.test import parallel_api_test, parallel_seed_test

from fedrl.environments.subprocess_env import SubprocessEnv
from fedrl.environments.traffic.sumo import FigureEight, Merge

BOTH = pytest.mark.parametrize("kind", [FigureEight, Merge])


def actions(env, steps, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 1.0, (steps, len(env.possible_agents)))


def played(env, seed, steps=400):
    """Everything seen in the first steps of an epoch."""
    call = env.call if isinstance(env, SubprocessEnv) else lambda name, *arguments: getattr(env, name)(*arguments)
    seen, speeds = [call("begin", seed)], []
    for row in actions(env, steps):
        outcome = call("advance", row)
        seen.append(outcome.observations)
        speeds.append(outcome.mean_speed)
    return np.array(seen), np.array(speeds)


@BOTH
def test_pettingzoos_own_api_test(opened, kind):
    parallel_api_test(opened(kind, horizon=150), num_cycles=200)


@BOTH
def test_pettingzoos_own_seed_test(kind):
    """It has two environments at once. As of 1.27 it compares one step only, hence the next test."""
    parallel_seed_test(lambda: SubprocessEnv(kind))


@BOTH
def test_a_seed_decides_everything(opened, kind):
    """Here after other epochs, elsewhere in a new process: the same to the last bit. Another seed: other numbers."""
    env, elsewhere = opened(kind), opened(SubprocessEnv, make=kind)
    seen, speeds = played(env, 3)
    other, other_speeds = played(env, 4)
    assert (speeds != other_speeds).any()
    assert (seen != other).any()
    for where in (env, elsewhere):
        again, again_speeds = played(where, 3)
        np.testing.assert_array_equal(seen, again)
        np.testing.assert_array_equal(speeds, again_speeds)


def test_resets_without_a_seed_follow_from_the_last_one(opened):
    env = opened(Merge, warm_up=100)

    def row():
        return [np.stack(list(env.reset(seed)[0].values())) for seed in (5, None, None)]

    first, again = row(), row()
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()
    assert (first[1] != first[2]).any()


@BOTH
def test_arrays_and_dictionaries_say_the_same(opened, kind):
    env = opened(kind, horizon=50)
    rows = actions(env, 50)
    first = env.begin(7)
    outcomes = [env.advance(row) for row in rows]
    observations, infos = env.reset(seed=7)
    np.testing.assert_array_equal(np.stack(list(observations.values())), first)
    assert [info["crash"] for info in infos.values()] == [False] * len(first)
    for row, wanted in zip(rows, outcomes, strict=True):
        given = {agent: np.array([a], np.float64) for agent, a in zip(env.agents, row, strict=True)}
        observations, rewards, terminations, truncations, infos = env.step(given)
        assert list(observations) == list(rewards) == list(infos) == env.possible_agents
        np.testing.assert_array_equal(np.stack(list(observations.values())), wanted.observations)
        assert set(rewards.values()) == {wanted.reward}
        assert set(terminations.values()) == {wanted.crash}
        assert set(truncations.values()) == {wanted.truncated}
        assert {info["mean_speed"] for info in infos.values()} == {wanted.mean_speed}
        assert wanted.reward == pytest.approx(wanted.mean_speed / env.v_ref)
    assert wanted.truncated
    assert env.agents == []


def test_actions_beyond_the_bounds_are_clipped(opened):
    env = opened(FigureEight)
    speeds = []
    for action in (1.0, 7.0):
        env.begin(0)
        speeds.append([env.advance(np.full(7, action)).mean_speed for _ in range(20)])
    assert speeds[0] == speeds[1]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (np.ones(2), r"vehicle_5: action array.* of shape \(2,\), expected shape \(1,\)"),
        (1.0, r"vehicle_5: action array\(1\.\) of shape \(\), expected shape \(1,\)"),
        (np.array(["fast"]), "vehicle_5: action array.*fast"),
        (np.array([np.nan]), "vehicle_5: action nan, expected a number in"),
        (np.array([np.inf]), "vehicle_5: action inf, expected a number in"),
    ],
)
def test_actions_that_are_none(opened, action, said):
    env = opened(FigureEight)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=said):
        env.step({agent: np.zeros(1) for agent in env.agents} | {"vehicle_5": action})
    assert env.time == 0, "nothing has moved"


def test_actions_for_the_wrong_agents(opened):
    env = opened(FigureEight)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="got actions for .*vehicle_1.*, expected one for each of"):
        env.step({"vehicle_1": np.zeros(1)})
    with pytest.raises(ValueError, match=r"actions of shape \(3,\), expected one number for each of 7 agents"):
        env.advance(np.zeros(3))
    with pytest.raises(ValueError, match="seeds must be whole numbers from 0, got -1"):
        env.begin(-1)
