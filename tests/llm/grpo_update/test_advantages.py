"""Advantages by hand: relative to the group, over steps or episodes, and by anchor."""

import numpy as np
import pytest

from fedrl.llm.episodes import Episode, Turn
from fedrl.llm.grpo_update.advantages import by_anchor, discounted_returns, group_relative
from fedrl.llm.grpo_update.update import Grpo, advantages

TINY = 1e-6


def test_by_step_counts_long_episodes_more():
    """Scores 1, 0, 0, 0 of one group: mean 1/4, deviation sqrt(1/4)."""
    long, short = group_relative([[0.0, 0.0, 0.0], [1.0]], ["a", "a"])
    np.testing.assert_allclose(long, [-0.25 / (0.5 + TINY)] * 3)
    np.testing.assert_allclose(short, [0.75 / (0.5 + TINY)])


def test_by_episode():
    """Scores 0 and 1: mean 1/2, deviation sqrt(1/2), whatever the lengths."""
    long, short = group_relative([[0.0, 0.0, 0.0], [1.0]], ["a", "a"], by_step=False)
    np.testing.assert_allclose(long, [-0.5 / (0.5**0.5 + TINY)] * 3)
    np.testing.assert_allclose(short, [0.5 / (0.5**0.5 + TINY)])


def test_unscaled():
    long, short = group_relative([[0.0, 0.0, 0.0], [1.0]], ["a", "a"], scaled=False)
    np.testing.assert_allclose(long, [-0.25] * 3)
    np.testing.assert_allclose(short, [0.75])


def test_groups_are_apart_and_those_without_spread_teach_nothing():
    found = group_relative([[1.0], [10.0], [3.0], [10.0], [7.0]], [0, 1, 0, 1, 2])
    np.testing.assert_allclose(np.concatenate(found), [-(0.5**0.5), 0.0, 0.5**0.5, 0.0, 0.0], rtol=1e-5)
    assert all(not row.any() for row in group_relative([[9.9] * 7, [9.9] * 3], [0, 0]))  # though 9.9 is no exact number


def test_discounted():
    np.testing.assert_allclose(discounted_returns(10.0, 3, 0.5), [2.5, 5.0, 10.0])
    np.testing.assert_allclose(discounted_returns(10.0, 3, 1.0), [10.0] * 3)


def test_by_anchor():
    """Steps are compared that begin at the same observation of the same group; one on its own has zero."""
    returns = [[2.5, 5.0, 10.0], [0.0, 0.0], [1.0]]
    anchors = [["door", "hall", "hall"], ["door", "attic"], ["door"]]
    first, second, third = by_anchor(returns, anchors, [0, 0, 1])
    np.testing.assert_allclose(first[0], 1.25 / (2.5 / 2**0.5 + TINY))
    np.testing.assert_allclose(first[1:], np.array([-2.5, 2.5]) / (5.0 / 2**0.5 + TINY))
    np.testing.assert_allclose(second, [-1.25 / (2.5 / 2**0.5 + TINY), 0.0])
    np.testing.assert_allclose(third, [0.0])  # another task's door
    np.testing.assert_allclose(by_anchor(returns, anchors, [0, 0, 1], scaled=False)[0], [1.25, -2.5, 2.5])


def episode(seen: str, valid: str, won: bool, score: float = 0.0) -> Episode:
    """A turn for each letter of `seen`; `valid` has a + where its action is well-formed."""
    turns = [Turn(s, "", "", v == "+", 0.0, ()) for s, v in zip(seen, valid, strict=True)]
    return Episode(0, "any", [], turns, score, won)


WON, LOST = episode("ab", "++", True, 0.9), episode("ac", "-+", False, 0.3)


def test_rewards_and_the_penalty_of_an_invalid_action():
    """Scores of the four steps: 10, 10, -0.1, 0."""
    scores = np.array([10.0, 10.0, -0.1, 0.0])
    wanted = (scores - scores.mean()) / (scores.std(ddof=1) + TINY)
    np.testing.assert_allclose(np.concatenate(advantages([WON, LOST], [0, 0], Grpo())), wanted)
    scores = np.array([9.0, 9.0, 2.0, 3.0])
    found = advantages([WON, LOST], [0, 0], Grpo(reward="score", invalid=1.0, scaled=False))
    np.testing.assert_allclose(np.concatenate(found), scores - scores.mean())


def test_gigpo_adds_advantages_by_step():
    """At "a" the returns are 5 and -0.1: a penalty counts at its own step only."""
    settings = {"scaled": False, "gamma": 0.5}
    plain = advantages([WON, LOST], [0, 0], Grpo(**settings))
    both = advantages([WON, LOST], [0, 0], Grpo(step_weight=2.0, **settings))
    extra = np.concatenate(both) - np.concatenate(plain)
    np.testing.assert_allclose(extra, [2 * 2.55, 0.0, -2 * 2.55, 0.0])


def test_settings_are_checked():
    with pytest.raises(ValueError, match='reward is "success" or "score", got "sucess"|got \'sucess\''):
        Grpo(reward="sucess")
    with pytest.raises(ValueError, match="epochs must be a finite number at least 1, got 0"):
        Grpo(epochs=0)
