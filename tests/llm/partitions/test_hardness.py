"""HardnessPartition against Algorithm 4, its properties, and what is refused; 3 s."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.llm.partitions.checks import PartitionError
from fedrl.llm.partitions.coverage import coverage
from fedrl.llm.partitions.hardness import default_bounds, hardness
from fedrl.llm.randomness import generator_at

SOLVED = np.arange(3000) % 3 == 0


def successes(partition, solved):
    return np.array([np.count_nonzero(np.asarray(solved)[mine]) for mine in partition])


def test_algorithm_4_step_by_step():
    """Tasks 1, 4, 5, 8 are solved; L = 4 and bounds (0, 2, 4)."""
    solved, S, U = [0, 1, 0, 0, 1, 1, 0, 0, 1, 0], [1, 4, 5, 8], [0, 2, 3, 6, 7, 9]
    Y = coverage(4, 3, 0.5, 7, bounds=(0, 2, 4))
    assert sum(len(mine) for mine in Y) == 6
    for k, mine in enumerate(hardness(solved, 3, 4, 0.5, 7)):
        F = generator_at(7, "hardness", k).choice(U, size=4 - len(Y[k]), replace=False)
        assert mine.tolist() == sorted([S[i] for i in Y[k]] + F.tolist())


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 6),
    st.floats(-2, 3).map(lambda x: 10**x),
    st.integers(0, 99),
    st.data(),
)
def test_sizes_are_exact_and_solved_tasks_shared_evenly(easy, hard, clients, xi, seed, data):
    solved = np.array(data.draw(st.permutations([True] * easy + [False] * hard)))
    L = data.draw(st.integers(1, easy + hard))
    partition = hardness(solved, clients, L, xi, seed)
    bounds = default_bounds(easy, hard, L)
    for mine in partition:
        assert mine.dtype == np.int64
        assert len(mine) == L
        assert (np.diff(mine) > 0).all()
        assert mine[-1] < easy + hard
    found = successes(partition, solved)
    assert found.sum() == clients * bounds.L_avg
    assert (bounds.L_min <= found).all()
    assert (found <= bounds.L_max).all()
    copies = np.bincount(np.concatenate(partition), minlength=easy + hard)[solved]
    assert copies.max() - copies.min() <= 1


def test_less_xi_more_spread_at_the_same_mean():
    for seed in (0, 1):
        found = [successes(hardness(SOLVED, 100, 100, xi, seed), SOLVED) for xi in (256, 16, 1, 0.1)]
        assert {n.mean() for n in found} == {50.0}
        spreads = [n.std() for n in found]
        assert spreads == sorted(spreads)
        np.testing.assert_allclose(spreads[0], 100 * (0.25 / 257) ** 0.5, rtol=0.2)
        assert spreads[3] > 40  # nearly all or nothing


def test_what_there_is_narrows_the_bounds():
    assert default_bounds(500, 500, 100) == (0, 50, 100)
    assert default_bounds(500, 30, 100) == (70, 70, 100)
    assert default_bounds(20, 500, 100) == (0, 20, 20)
    assert default_bounds(60, 60, 100) == (40, 50, 60)
    assert default_bounds(500, 500, 7) == (0, 3, 7)
    assert successes(hardness(SOLVED, 10, 100, 1.0, 0, bounds=(10, 20, 40)), SOLVED).mean() == 20
    assert successes(hardness(SOLVED, 10, 100, 1.0, 0, bounds=(10, 20, 40), r=0.3), SOLVED).mean() == 30


def test_errors():
    with pytest.raises(PartitionError, match="h = 101 solved tasks do not fit among a client's L = 100"):
        hardness(SOLVED, 10, 100, 1.0, 0, bounds=(0, 50, 101))
    few_hard = [True] * 200 + [False] * 60
    with pytest.raises(PartitionError, match="l = 0 solved tasks of L = 100 needs 100 unsolved ones, there are 60; raise "
                       "l to at least 40"):  # fmt: skip
        hardness(few_hard, 10, 100, 1.0, 0, bounds=(0, 50, 100))
    with pytest.raises(PartitionError, match="L_max = 100 different solved tasks of 60"):
        hardness([True] * 60 + [False] * 200, 10, 100, 1.0, 0, bounds=(0, 50, 100))
    with pytest.raises(PartitionError, match="100 different tasks of 50"):
        hardness([True, False] * 25, 10, 100, 1.0, 0)
    with pytest.raises(PartitionError, match="solved has 3000 labels for 3001 tasks"):
        hardness(SOLVED, 10, 100, 1.0, 0, tasks=3001)
    with pytest.raises(PartitionError, match="yes or no .* compare scores"):
        hardness([0.3, 1.0, 0.0], 2, 1, 1.0, 0)
    with pytest.raises(PartitionError, match="0 of 50 tasks are solved, .* stronger checkpoint"):
        hardness([False] * 50, 2, 10, 1.0, 0)
    with pytest.raises(PartitionError, match="50 of 50 tasks are solved, .* weaker checkpoint"):
        hardness([True] * 50, 2, 10, 1.0, 0)
    with pytest.raises(PartitionError, match="xi must be"):
        hardness(SOLVED, 10, 100, 0.0, 0)
