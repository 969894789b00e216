"""Clients of language agents: one text environment that all can open, and to each client its own list of tasks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import gymnasium
import numpy as np

from fedrl.arguments import checked
from fedrl.federations.federation import Federation


class TextWorld(NamedTuple):
    """What stands for the environment in a federation of language agents."""

    make: Callable[[], gymnasium.Env]  # a text environment that opens task i: reset(options={"task": i})
    gamma: float = 1.0


class TaskList(NamedTuple):
    """A client's world: the numbers of its tasks, filled up with -1."""

    tasks: np.ndarray
    number: np.ndarray  # how many they are


@checked
def federation(world: TextWorld, partition: Sequence[Sequence[int] | np.ndarray]) -> Federation:
    """A client for each list of tasks of the `partition` (`fedrl.llm.partitions`)."""
    if not partition or not all(len(tasks) for tasks in partition):
        empty = next((k for k, tasks in enumerate(partition) if not len(tasks)), None)
        raise ValueError(
            "a partition wants at least one client, and every client at least one task; "
            + ("got no client" if empty is None else f"client {empty} has none")
        )
    counts = np.array([len(tasks) for tasks in partition], np.int32)
    lists = np.full((len(partition), counts.max()), -1, np.int32)
    for row, tasks in zip(lists, partition, strict=True):
        row[: len(tasks)] = tasks
    return Federation(world, TaskList(lists, counts))


def listed(world: TaskList) -> np.ndarray:
    return np.asarray(world.tasks)[: int(world.number)]
