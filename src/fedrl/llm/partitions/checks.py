"""The type of partitions, and checks with errors that state the numbers given and the next move."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Partition = list[np.ndarray]  # [clients] ascending task indices, int64


class PartitionError(ValueError):
    """The tasks cannot be divided among the clients as asked."""


def check_counts(**counts: int) -> None:
    """Each a whole number of at least one."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise PartitionError(f"{name} must be a whole number of at least 1, got {count!r}; pass how many there are")


def check_enough(tasks: int, tasks_each: int) -> None:
    """A client's tasks differ from each other, so there must be as many."""
    if tasks_each > tasks:
        raise PartitionError(
            f"a client cannot have {tasks_each} different tasks of {tasks}; lower tasks_each to at most {tasks} "
            "or bring more tasks"
        )


def check_dispersion(name: str, value: float, low: float, high: float = math.inf, *, closed: bool = False) -> None:
    """A finite number above `low`, or at it if `closed`, and below `high`."""
    if not math.isfinite(value) or value >= high or value < low or (value == low and not closed):
        upper = "" if high == math.inf else f" and below {high:g}"
        raise PartitionError(
            f"{name} must be a finite number {'of at least' if closed else 'above'} {low:g}{upper}, got {value}; "
            f"choose {name} in that range"
        )


def labels_of(name: str, labels: Sequence[Any] | np.ndarray, tasks: int | None) -> np.ndarray:
    """The labels as an array [tasks]; `tasks` is the expected number, if known."""
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) == 0:
        raise PartitionError(
            f"{name} must be one label per task, got an array of shape {array.shape}; pass a flat list"
        )
    if tasks is not None and len(array) != tasks:
        raise PartitionError(
            f"{name} has {len(array)} labels for {tasks} tasks; label every task once, in the order of the tasks"
        )
    return array
