"""CoveragePartition against Algorithm 3 by hand, its properties, and what is refused; 6 s."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.llm.partitions.checks import PartitionError
from fedrl.llm.partitions.coverage import RELEASED, assignments, coverage, place
from fedrl.llm.partitions.sizes import Bounds, beta_sizes, round_to_sum
from fedrl.llm.randomness import generator_at


class Handed:
    """A generator whose draws are written down."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def exponential(self, size):
        assert size == len(self.rows[0])
        return np.array(self.rows.pop(0), float)

    def beta(self, a, b, size):
        self.asked = (a, b, size)
        return np.array(self.rows.pop(0), float)


def lengths(partition):
    return np.array([len(mine) for mine in partition])


def copies(partition, tasks):
    return np.bincount(np.concatenate(partition), minlength=tasks)


def test_algorithm_3_by_hand():
    """Three clients, four tasks, bounds (1, 2, 4), r = 3/2, so T = 6."""
    bounds = Bounds(1, 2, 4)
    assert assignments(4, 3, bounds, 1.5) == 6
    rng = Handed([0.0, 0.5, 1.0])
    u = beta_sizes(3, bounds, 9.0, 6, rng)
    assert rng.asked == pytest.approx((3.0, 6.0, 3))  # mu = 1/3
    np.testing.assert_allclose(u, [0.8, 2.0, 3.2])  # 1, 2.5, 4 times 6 / 7.5
    n = round_to_sum(u, 6, 1, 4)  # 0.8 stays at 1, the others move by -0.1 to 1.9 and 3.1: floors 1, 1, 3
    assert n.tolist() == [1, 2, 3]
    rng = Handed(
        [1, 1, 6],  # times 1, 1/2, 2: the second client
        [0.2, 0.1, 9],  # the third needs all three that are left; then 0.2 and 0.1: the second
        [0.1, 9, 9],  # the third needs both that are left
        [9, 9, 9],  # the first and the third have room
    )
    held = place(n, np.array([1, 2, 1, 2]), rng)
    assert [np.flatnonzero(row).tolist() for row in held] == [[3], [0, 1], [1, 2, 3]]


def test_the_pieces_are_the_whole():
    """The same draws by their addresses, the placement again with lists and sorted()."""
    tasks, clients, bounds, xi, seed = 30, 7, Bounds(2, 9, 25), 0.8, 11
    T = 7 * 9
    u = beta_sizes(clients, bounds, xi, T, generator_at(seed, "coverage", "sizes"))
    n = round_to_sum(u, T, 2, 25)
    more = generator_at(seed, "coverage", "copies").choice(tasks, size=T - 2 * tasks, replace=False)
    rng = generator_at(seed, "coverage", "place")
    rem, mine = n.tolist(), [[] for _ in range(clients)]
    for i in range(tasks):
        times = rng.exponential(size=clients)
        certain = [k for k in range(clients) if rem[k] == tasks - i]
        drawn = sorted((times[k] / rem[k], k) for k in range(clients) if rem[k] and k not in certain)
        for k in (certain + [k for _, k in drawn])[: 3 if i in more else 2]:
            mine[k].append(i)
            rem[k] -= 1
    assert [part.tolist() for part in coverage(tasks, clients, xi, seed, bounds=bounds)] == mine


def test_chances_are_as_the_room():
    """Of clients with room 1, 2, 3 for many tasks, the first: 1/6, 2/6, 3/6; of two, as drawn one after the other."""
    first, pair = np.zeros(3), np.zeros((3, 3))
    rng = generator_at(0, "test")
    runs = 6000
    for _ in range(runs):
        held = place(np.array([1, 2, 3]), np.array([1, 1, 1, 1, 1, 1]), rng)
        first[np.argmax(held[:, 0])] += 1
        held = place(np.array([1, 2, 3]), np.array([2, 1, 1, 1, 1]), rng)
        pair[tuple(np.flatnonzero(held[:, 0]))] += 1
    np.testing.assert_allclose(first / runs, [1 / 6, 2 / 6, 3 / 6], atol=0.025)
    room = [1, 2, 3]
    for i, j in itertools.combinations(range(3), 2):
        chance = room[i] / 6 * room[j] / (6 - room[i]) + room[j] / 6 * room[i] / (6 - room[j])
        np.testing.assert_allclose(pair[i, j] / runs, chance, atol=0.025)


@st.composite
def requests(draw):
    tasks, clients = draw(st.integers(1, 25)), draw(st.integers(1, 8))
    L_min, L_max = sorted((draw(st.integers(0, tasks)), draw(st.integers(1, tasks))))
    L_avg = L_min + (L_max - L_min) * draw(st.floats(0, 1))
    r = draw(st.none() | st.integers(max(1, clients * L_min), clients * L_max).map(lambda T: T / tasks))
    return tasks, clients, Bounds(L_min, L_avg, L_max), r


@settings(max_examples=300, deadline=None)
@given(requests(), st.floats(-3, 4).map(lambda x: 10**x), st.integers(0, 1000))
def test_sizes_copies_and_bounds_are_exact(request_, xi, seed):
    tasks, clients, bounds, r = request_
    partition = coverage(tasks, clients, xi, seed, bounds=bounds, r=r)
    T = assignments(tasks, clients, bounds, r)
    if r is not None:
        assert round(r * tasks) == T
    n, q = lengths(partition), copies(partition, tasks)
    assert n.sum() == q.sum() == T
    assert (bounds.L_min <= n).all()
    assert (n <= bounds.L_max).all()
    assert q.max() - q.min() <= 1
    assert all(mine.dtype == np.int64 and (np.diff(mine) > 0).all() for mine in partition)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(0, 8), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 4), st.data())
def test_round_to_sum_is_the_nearest(u, low, extra, data):
    """Of all whole sizes within the bounds and of that sum, none is nearer to u; plain largest remainder in the bounds."""
    high, u = low + extra, np.array(u)
    T = data.draw(st.integers(low * len(u), high * len(u)))
    n = round_to_sum(u, T, low, high)
    assert n.sum() == T
    rivals = [m for m in itertools.product(range(low, high + 1), repeat=len(u)) if sum(m) == T]
    assert tuple(n) in rivals
    nearest = min(np.sum((np.array(m) - u) ** 2) for m in rivals)
    assert np.sum((n - u) ** 2) <= nearest + 1e-9


def test_largest_remainder():
    assert round_to_sum(np.array([1.5, 2.25, 3.25]), 7, 0, 9).tolist() == [2, 2, 3]
    assert round_to_sum(np.array([1.5, 1.5, 1.5, 1.5]), 6, 0, 9).tolist() == [2, 2, 1, 1]
    assert round_to_sum(np.array([12.0, 4.0, 2.0]), 18, 0, 10).tolist() == [10, 5, 3]


def test_less_xi_more_spread_at_the_same_mean():
    for seed in (0, 1, 2):
        found = [lengths(coverage(2000, 100, xi, seed)) for xi in (256, 16, 1, 0.1)]
        assert {n.mean() for n in found} == {500.0}
        spreads = [n.std() for n in found]
        assert spreads == sorted(spreads)
        mu = 4 / 9
        np.testing.assert_allclose(spreads[0], 900 * (mu * (1 - mu) / 257) ** 0.5, rtol=0.2)
        np.testing.assert_allclose(spreads[1], 900 * (mu * (1 - mu) / 17) ** 0.5, rtol=0.2)


def test_r_follows_from_the_sizes_and_the_other_way_round():
    assert assignments(6410, 100, RELEASED, None) == 50_000
    assert assignments(6410, 100, RELEASED, 100 * 500 / 6410) == 50_000  # 49999.99999 in floating point or not
    few = coverage(2000, 100, 4.0, 0, r=6.2)
    assert lengths(few).mean() == 124
    assert set(copies(few, 2000)) == {6, 7}


def test_no_width():
    assert lengths(coverage(10, 4, 1.0, 0, bounds=(5, 5, 5))).tolist() == [5] * 4
    assert lengths(coverage(10, 4, 1.0, 0, bounds=(3, 3, 9))).tolist() == [3] * 4
    assert lengths(coverage(10, 4, 1.0, 0, bounds=(3, 10, 10))).tolist() == [10] * 4


def test_errors():
    with pytest.raises(PartitionError, match="r = 4 makes T = 8000 assignments of 2000 tasks, but 100 clients with 100 to "
                       "1000 each take 10000 to 100000; choose r between 5 and 50"):  # fmt: skip
        coverage(2000, 100, 1.0, 0, r=4.0)
    with pytest.raises(PartitionError, match="T = 120000"):
        coverage(2000, 100, 1.0, 0, r=60.0)
    with pytest.raises(PartitionError, match="L_max = 1000 different tasks of 800; lower L_max to at most 800"):
        coverage(800, 100, 1.0, 0)
    with pytest.raises(PartitionError, match="got 5, 3, 9; put them in order"):
        coverage(800, 100, 1.0, 0, bounds=(5, 3, 9))
    for xi in (0.0, -1.0, float("inf")):
        with pytest.raises(PartitionError, match="xi must be a finite number above 0"):
            coverage(2000, 100, xi, 0)
    with pytest.raises(PartitionError, match="r must be"):
        coverage(2000, 100, 1.0, 0, r=-1.0)
    with pytest.raises(PartitionError, match="tasks must be a whole number of at least 1, got 0"):
        coverage(0, 100, 1.0, 0)
