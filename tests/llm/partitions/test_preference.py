"""PreferencePartition against Algorithm 2 by hand, its properties, and what is refused; 5 s."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.llm.partitions.checks import PartitionError
from fedrl.llm.partitions.preference import capacity_fix, dirichlet, gaussian_logits, gaussian_logs, preference
from fedrl.llm.randomness import generator_at

POOL = (
    ["Pick"] * 50 + ["Look"] * 30 + ["Heat"] * 20
)  # p = 0.2 (Heat), 0.3 (Look), 0.5 (Pick), in the order of the names
BIG = np.repeat(["a", "b", "c", "d"], [4000, 3000, 2000, 1000])


def shares(partition, labels):
    kinds = np.unique(labels)
    return np.array([[np.mean(np.asarray(labels)[mine] == kind) for kind in kinds] for mine in partition])


def spread(omega, mix=gaussian_logits, seed=0):
    return shares(preference(BIG, 300, 200, omega, seed, mix=mix), BIG).std(axis=0).mean()


class Handed:
    """A generator whose multinomial draws are written down, with the arguments they must be asked for with."""

    def __init__(self, *expected):
        self.expected = list(expected)

    def multinomial(self, n, pvals):
        wanted_n, wanted_p, counts = self.expected.pop(0)
        assert n == wanted_n
        np.testing.assert_allclose(pvals, wanted_p, atol=1e-12)
        return np.array(counts)


def test_capacity_fix_by_hand():
    """Nine wanted of a category of two: seven go on by q, three of which overflow again."""
    rng = Handed((7, [0, 0.6, 0.4], [0, 5, 2]), (3, [0, 0, 1], [0, 0, 3]))
    fixed = capacity_fix(np.array([9, 1, 0]), np.array([2, 3, 10]), np.array([0.5, 0.3, 0.2]), rng)
    assert fixed.tolist() == [2, 3, 5]
    assert not rng.expected
    by_room = Handed((3, [0, 0.25, 0.75], [0, 1, 2]))  # q leaves nothing for those with room
    assert capacity_fix(np.array([5, 0, 0]), np.array([2, 1, 3]), np.array([1.0, 0, 0]), by_room).tolist() == [2, 1, 2]
    assert capacity_fix(np.array([1, 2]), np.array([1, 2]), np.array([0.5, 0.5]), Handed()).tolist() == [1, 2]


@pytest.mark.parametrize("tasks_each", [12, 90])  # the second overflows
def test_algorithm_2_step_by_step(tasks_each):
    """Every step again in plain arithmetic from the same stream."""
    omega, sizes = 0.7, [20, 30, 50]
    for k, mine in enumerate(preference(POOL, 5, tasks_each, omega, seed=3)):
        rng = generator_at(3, "preference", k)
        noise = rng.standard_normal(3)
        z = [math.log(n / 100 / (1 - n / 100)) + omega * e for n, e in zip(sizes, noise, strict=True)]
        q = [math.exp(x) / sum(math.exp(y) for y in z) for x in z]
        counts = list(rng.multinomial(tasks_each, q))
        while sum(counts) != sum(min(a, n) for a, n in zip(counts, sizes, strict=True)):
            extra = sum(max(a - n, 0) for a, n in zip(counts, sizes, strict=True))
            counts = [min(a, n) for a, n in zip(counts, sizes, strict=True)]
            open_q = [x if a < n else 0.0 for x, a, n in zip(q, counts, sizes, strict=True)]
            more = rng.multinomial(extra, np.array(open_q) / sum(open_q))
            counts = [a + b for a, b in zip(counts, more, strict=True)]
        wanted = []
        for (first, last), count in zip([(80, 100), (50, 80), (0, 50)], counts, strict=True):
            wanted += rng.choice(np.arange(first, last), size=count, replace=False).tolist()
        assert mine.tolist() == sorted(wanted)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=40),
    st.integers(1, 5),
    st.floats(0.01, 0.99) | st.floats(0.0, 500.0),
    st.sampled_from([gaussian_logits, gaussian_logs, dirichlet]),
    st.integers(0, 2**70),
    st.data(),
)
def test_sizes_are_exact_and_nothing_comes_twice(categories, clients, omega, mix, seed, data):
    omega = float(np.clip(omega, 0.001, 0.999)) if mix is dirichlet else omega
    tasks_each = data.draw(st.integers(1, len(categories)))
    partition = preference(categories, clients, tasks_each, omega, seed, mix=mix)
    assert len(partition) == clients
    for mine in partition:
        assert mine.dtype == np.int64
        assert len(mine) == tasks_each
        assert (np.diff(mine) > 0).all()
        assert mine[0] >= 0
        assert mine[-1] < len(categories)
    more = preference(categories, clients + 2, tasks_each, omega, seed, mix=mix)
    assert all((a == b).all() for a, b in zip(partition, more[:clients], strict=True))


def test_a_client_with_all_tasks_has_all_tasks():
    assert preference(POOL, 2, 100, 5.0, 0)[1].tolist() == list(range(100))


@pytest.mark.parametrize("mix", [gaussian_logits, gaussian_logs, dirichlet])
def test_more_omega_more_preference(mix):
    for seed in (0, 1):
        found = [spread(omega, mix, seed) for omega in (0.01, 0.1, 0.5, 0.9)]
        assert found == sorted(found)
        assert found[-1] > 4 * found[0]
    if mix is not dirichlet:
        none = spread(0.0, mix)
        np.testing.assert_allclose(none, 0.43 / 200**0.5, rtol=0.1)  # what the multinomial alone makes of it


def test_the_middle_of_the_mixes():
    """Log anchors keep the pool's shares, logits do not: 4/6, 3/7, 2/8, 1/9 normalised."""
    p = np.array([0.4, 0.3, 0.2, 0.1])
    odds = p / (1 - p)
    np.testing.assert_allclose(gaussian_logs(p, 0.0, generator_at(0)), p, rtol=1e-12)
    np.testing.assert_allclose(gaussian_logits(p, 0.0, generator_at(0)), odds / odds.sum(), rtol=1e-12)
    np.testing.assert_allclose(gaussian_logits(np.array([0.8, 0.2]), 0.0, generator_at(0)), [16 / 17, 1 / 17])
    np.testing.assert_allclose(shares(preference(BIG, 300, 200, 0.05, 0, mix=gaussian_logs), BIG).mean(0), p, atol=0.01)
    found = shares(preference(BIG, 300, 200, 0.05, 0), BIG).mean(0)
    np.testing.assert_allclose(found, odds / odds.sum(), atol=0.01)
    assert found[0] > 0.44
    mean = shares(preference(BIG, 2000, 20, 0.5, 0, mix=dirichlet), BIG).mean(0)
    np.testing.assert_allclose(mean, (p + 0.01) / 1.04, atol=0.03)


def test_one_category():
    assert len(preference(["only"] * 9, 3, 4, 0.9, 0)[2]) == 4


def test_errors():
    with pytest.raises(PartitionError, match="101 different tasks of 100; lower tasks_each to at most 100"):
        preference(POOL, 3, 101, 0.1, 0)
    with pytest.raises(PartitionError, match="omega must be a finite number of at least 0, got -0.1"):
        preference(POOL, 3, 10, -0.1, 0)
    with pytest.raises(PartitionError, match="got nan"):
        preference(POOL, 3, 10, math.nan, 0)
    with pytest.raises(PartitionError, match="omega must be a finite number above 0 and below 1, got 1"):
        preference(POOL, 3, 10, 1.0, 0, mix=dirichlet)
    with pytest.raises(PartitionError, match="categories has 100 labels for 120 tasks; label every task"):
        preference(POOL, 3, 10, 0.1, 0, tasks=120)
    with pytest.raises(PartitionError, match=r"shape \(1, 100\)"):
        preference([POOL], 3, 10, 0.1, 0)
    with pytest.raises(PartitionError, match="names or all whole numbers"):
        preference(["Pick", None], 3, 1, 0.1, 0)
    with pytest.raises(PartitionError, match="clients must be a whole number of at least 1, got 0"):
        preference(POOL, 0, 10, 0.1, 0)
