"""The even partition, and that the same seed gives the same bytes in any process; 6 s, most of it another Python."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.llm.partitions.checks import PartitionError
from fedrl.llm.partitions.uniform import uniform
from fedrl.llm.randomness import generator_at

PROGRAM = """
import hashlib
from fedrl.llm.partitions.coverage import coverage
from fedrl.llm.partitions.hardness import hardness
from fedrl.llm.partitions.preference import dirichlet, preference
from fedrl.llm.partitions.uniform import uniform

parts = [
    preference(["cool", "heat", "look", "pick"] * 50, 6, 30, 0.9, 5),
    preference(["cool", "heat", "look", "pick"] * 50, 6, 30, 0.9, 5, mix=dirichlet),
    coverage(200, 6, 1.0, 5, bounds=(10, 50, 100)),
    hardness([True, False, False, True] * 50, 6, 30, 1.0, 5),
    uniform(200, 6, 30, 5),
]
digest = hashlib.sha256(b"".join(mine.tobytes() for part in parts for mine in part)).hexdigest()
print(digest)
"""


def test_same_seed_same_bytes_in_any_process():
    here = {}
    exec(PROGRAM, here)
    environment = os.environ | {"PYTHONHASHSEED": "77"}
    there = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment)
    assert there.stdout.strip() == here["digest"]


def test_seeds_and_addresses_differ():
    first = [
        generator_at(*address).random()
        for address in [(0,), (1,), (0, "a"), (0, "b"), (0, "a", 1), (0, "a", "1"), (0, 1)]
    ]
    assert len(set(first)) == len(first)
    assert generator_at(2**80, "a", 3).random() == generator_at(2**80, "a", 3).random()
    assert any((a != b).any() for a, b in zip(uniform(50, 4, 10, 0), uniform(50, 4, 10, 1), strict=True))


def test_the_ring_by_hand():
    """Ten tasks, three clients with four each: places 0-3, 3-6 and 6-9 of the ring; with five 0-4, 3-7, 6-9 and 0."""
    ring = generator_at(9, "uniform").permutation(10)
    for each, places in [
        (4, [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]),
        (5, [range(5), range(3, 8), [6, 7, 8, 9, 0]]),
    ]:
        assert [mine.tolist() for mine in uniform(10, 3, each, 9)] == [sorted(ring[list(place)]) for place in places]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 9), st.data())
def test_even_in_every_way(tasks, clients, seed, data):
    each = data.draw(st.integers(1, tasks))
    partition = uniform(tasks, clients, each, seed)
    assert [len(mine) for mine in partition] == [each] * clients
    assert all((np.diff(mine) > 0).all() and mine.dtype == np.int64 for mine in partition)
    copies = np.bincount(np.concatenate(partition), minlength=tasks)
    assert copies.max() - copies.min() <= 1


def test_errors():
    with pytest.raises(PartitionError, match="100 different tasks of 40"):
        uniform(40, 3, 100, 0)
    with pytest.raises(TypeError, match="tasks_each expects a whole number, got 2.5"):
        uniform(40, 3, 2.5, 0)
