"""Longest work first: every client is placed once, and the makespan is within 4/3 of the shortest possible."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.engines.scheduling import longest_first, makespan, reschedule


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=7), st.integers(1, 3))
def test_at_most_four_thirds(seconds, workers):
    work = {i: float(x) for i, x in enumerate(seconds)}
    places = longest_first(range(len(work)), work, workers)
    assert sorted(itertools.chain(*places)) == list(work)
    assert len(places) == workers
    best = min(
        max(sum(work[i] for i in work if where[i] == worker) for worker in range(workers))
        for where in itertools.product(range(workers), repeat=len(work))
    )
    assert makespan(places, work) <= (4 / 3 - 1 / (3 * workers)) * best + 1e-9


def test_untimed_clients_are_spread_evenly():
    assert [len(place) for place in longest_first(range(10), {}, 4)] == [3, 3, 2, 2]


@pytest.mark.parametrize(("slow", "moves"), [(1.1, False), (3.0, True)])
def test_moving_must_be_worth_it(slow, moves):
    """Two and two; with one client three times as slow its neighbour had better move."""
    before = [[0, 1], [2, 3]]
    after = reschedule(before, range(4), {0: slow, 1: 1.0, 2: 1.0, 3: 1.0}, 2)
    assert (after != before) == moves


def test_another_cohort_is_placed_anew():
    assert reschedule([[0, 1], [2]], range(2), {}, 2) == [[0], [1]]
