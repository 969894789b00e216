"""From numbers of seeds to verdicts, by hand."""

import math

import numpy as np
import pytest

from fedrl.experiments import judge
from fedrl.experiments.judge import FAILS, HOLDS, UNDECIDED


@pytest.mark.parametrize(
    ("values", "mean", "error"),
    [
        ([1.0, 3.0], 2.0, 1.0),  # deviation sqrt(2), over sqrt(2)
        ([0.0, 0.0, 6.0, 6.0], 3.0, math.sqrt(3.0)),  # deviation sqrt(36 / 3), over 2
        ([5.0, 5.0, 5.0], 5.0, 0.0),
    ],
)
def test_mean_and_its_standard_error(values, mean, error):
    assert judge.mean_se(np.array(values)) == pytest.approx((mean, error))


def test_one_seed_has_no_standard_error():
    mean, error = judge.mean_se(np.array([4.0]))
    assert mean == 4.0
    assert math.isnan(error)


def test_errors_of_a_difference_add_as_squares():
    """Standard errors 3 and 4: neither their sum nor the larger, but 5."""
    assert judge.difference(np.array([17.0, 23.0]), np.array([4.0, 12.0])) == pytest.approx((12.0, 5.0))
    assert judge.difference(np.array([4.0, 12.0]), np.array([17.0, 23.0])) == pytest.approx((-12.0, 5.0))


@pytest.mark.parametrize(
    ("gap", "error", "verdict"),
    [(3.01, 1.0, HOLDS), (2.99, 1.0, UNDECIDED), (-2.99, 1.0, UNDECIDED), (-3.01, 1.0, FAILS), (0.0, 0.0, UNDECIDED)],
)
def test_a_sign_counts_beyond_three_standard_errors(gap, error, verdict):
    assert judge.sign(gap, error) == verdict


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(0.29, UNDECIDED), (0.31, HOLDS), (1.69, HOLDS), (1.71, UNDECIDED), (2.31, FAILS), (-0.31, FAILS)],
)
def test_inside_counts_with_three_standard_errors_to_spare(value, verdict):
    assert judge.inside(value, 0.1, 0.0, 2.0) == verdict


def test_all_of_them():
    assert judge.every([HOLDS, HOLDS]) == HOLDS
    assert judge.every([]) == UNDECIDED
    assert judge.every([HOLDS, UNDECIDED, FAILS]) == FAILS
    assert judge.every([HOLDS, UNDECIDED]) == UNDECIDED
    assert judge.some([FAILS, UNDECIDED, HOLDS]) == HOLDS
    assert judge.some([FAILS, UNDECIDED]) == UNDECIDED
    assert judge.some([FAILS, FAILS]) == FAILS
    assert judge.some([]) == UNDECIDED


def test_in_plain_words():
    assert judge.sign(1.0, 0.3) == "holds"
    assert judge.sign(-1.0, 0.3) == "does not hold"
    assert judge.sign(1.0, 0.4) == "undecided"
    assert judge.sign(1.0, float("nan")) == "undecided"  # one seed tells nothing
    assert judge.inside(1.0, 0.1, 0.0, 2.0) == "holds"
    assert judge.inside(1.0, 0.1, 1.5, 2.0) == "does not hold"
    assert judge.inside(1.0, 0.1, 0.9, 2.0) == "undecided"
    assert judge.every(["holds", "undecided"]) == "undecided"
    assert judge.every(["does not hold", "undecided"]) == "does not hold"
