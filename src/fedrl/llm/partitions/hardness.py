"""HardnessPartition: clients of equal size with few and with many tasks that are easy (fedagent, Algorithm 4)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrl.arguments import checked
from fedrl.llm.partitions.checks import Partition, PartitionError, check_counts, check_enough, labels_of
from fedrl.llm.partitions.coverage import coverage
from fedrl.llm.partitions.sizes import Bounds
from fedrl.llm.randomness import generator_at


@checked
def hardness(
    solved: Sequence[Any] | np.ndarray,
    clients: int,
    tasks_each: int,
    xi: float,
    seed: int,
    *,
    bounds: Bounds | tuple[int, float, int] | None = None,
    r: float | None = None,
    tasks: int | None = None,
) -> Partition:
    """Algorithm 4: Y_k from CoveragePartition over the solved tasks with xi' = `xi`, then unsolved ones up to L.

    `solved` says for every task whether a checkpoint solves it. `bounds` (l, c, h) limit a client's solved tasks.
    bounds = None is the released code's (0, L // 2, L), narrowed to what is feasible: a client has at least L - |U| and at
    most |S| solved tasks. The paper does not say what to do when |U| < m_k; bounds given by hand under which that could
    happen are refused, whatever the seed. Copies of solved tasks are balanced as in Algorithm 3, those of unsolved tasks
    are not: each client draws independently, as printed.
    """
    S, U = split(solved, tasks)
    check_counts(clients=clients, tasks_each=tasks_each)
    check_enough(len(S) + len(U), tasks_each)
    ell, c, h = bounds if bounds is not None else default_bounds(len(S), len(U), tasks_each)
    if h > tasks_each:
        raise PartitionError(f"h = {h} solved tasks do not fit among a client's L = {tasks_each}; lower h or raise L")
    if tasks_each - ell > len(U):
        raise PartitionError(
            f"a client with l = {ell} solved tasks of L = {tasks_each} needs {tasks_each - ell} unsolved ones, there are "
            f"{len(U)}; raise l to at least {tasks_each - len(U)} or lower L"
        )
    Y = coverage(len(S), clients, xi, seed, bounds=Bounds(ell, c, h), r=r, what="solved tasks")
    partition = []
    for k, tasks_of_k in enumerate(Y):
        F = generator_at(seed, "hardness", k).choice(U, size=tasks_each - len(tasks_of_k), replace=False)
        partition.append(np.sort(np.concatenate([S[tasks_of_k], F])))
    return partition


def default_bounds(solved: int, unsolved: int, tasks_each: int) -> Bounds:
    """(0, L // 2, L) if there are enough tasks of either kind, else the nearest feasible bounds."""
    ell, h = max(0, tasks_each - unsolved), min(tasks_each, solved)
    return Bounds(ell, min(max(tasks_each // 2, ell), h), h)


def split(solved: Sequence[Any] | np.ndarray, tasks: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """S and U, the indices of solved and unsolved tasks; an error if either is empty."""
    labels = labels_of("solved", solved, tasks)
    if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
        raise PartitionError(
            f"solved must say yes or no (True or False, 1 or 0) of each task, got an array of {labels.dtype}; "
            "compare scores with the one that counts as success"
        )
    S, U = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    if not len(S) or not len(U):
        raise PartitionError(
            f"{len(S)} of {len(labels)} tasks are solved, so that none is harder than another; label them with a "
            f"{'stronger' if not len(S) else 'weaker'} checkpoint"
        )
    return S, U
