"""The best evaluation, and when a run ends for lack of a better one: by hand."""

import math

import pytest

from fedrl.records.best import BestSoFar, StopRule


def after(*returns) -> BestSoFar:
    best = BestSoFar()
    for round, value in enumerate(returns):
        best.see({"round": round} if value == "not evaluated" else {"round": round, "return": value})
    return best


def test_the_first_of_the_highest():
    best = after(1.0, "not evaluated", 3.0, 2.0, math.nan, None, 3.0)
    assert (best.value, best.round, best.since) == (3.0, 2, 4)
    assert after(math.nan, -5.0).round == 1
    assert after("not evaluated").round == -1


@pytest.mark.parametrize(
    ("returns", "rule", "ends"),
    [
        ((1.0, 2.0), StopRule(), False),
        ((1.0, 2.0), StopRule(stop_at=2.0), True),
        ((1.0, 2.0), StopRule(stop_at=2.1), False),
        ((2.0, 1.0, 1.0), StopRule(patience=2), True),
        ((2.0, 1.0, "not evaluated"), StopRule(patience=2), False),
        ((2.0, 1.0, 1.0, 3.0), StopRule(patience=2), False),
    ],
)
def test_when_to_stop(returns, rule, ends):
    assert after(*returns).ends(rule) == ends


def test_whether_there_is_a_rule():
    assert not StopRule().given
    assert StopRule(patience=1).given
