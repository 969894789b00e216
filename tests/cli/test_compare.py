"""The intervals of `fedrl compare`, by hand and by a printed table of Student's t."""

import numpy as np
import pytest

from fedrl.cli.compare import Final, half_width, interval, t_quantile


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (7, 2.3646), (30, 2.0423)])
def test_student_t_as_printed(freedom, t):
    assert t_quantile(freedom) == pytest.approx(t, abs=1e-4)


def test_half_the_width_is_t_times_the_standard_error():
    assert half_width(np.array([1.0, 3.0])) == pytest.approx(12.7062 * 1.0, rel=1e-5)
    assert half_width(np.array([0.0, 0.0, 6.0, 6.0])) == pytest.approx(3.1824 * 3.0**0.5, rel=1e-4)
    assert half_width(np.array([2.0])) is None


def test_what_is_printed():
    assert interval(Final("run", "arm", 10.0, 2.5, 4)) == "7.500 to 12.500"
    assert interval(Final("run", "arm", 10.0, None, 1)) == "–"


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.7062), (2, 4.30265), (9, 2.26216), (1000, 1.96234)])
def test_t_quantile_agrees_with_the_tables(freedom, quantile):
    assert t_quantile(freedom) == pytest.approx(quantile, abs=1e-4)
