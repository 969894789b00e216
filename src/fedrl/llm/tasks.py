"""Clients of language agents: one text environment for all, and a list of tasks for each client."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import gymnasium
import numpy as np

from fedrl.arguments import checked
from fedrl.federations.federation import Federation


class TextEnvironment(NamedTuple):
    """The environment of a federation of language agents."""

    make: Callable[[], gymnasium.Env[str, str]]  # opens task i by reset(options={"task": i})
    gamma: float = 1.0


class TaskList(NamedTuple):
    """The `env_params` of a client: the numbers of its tasks, padded with -1."""

    tasks: np.ndarray
    number: np.ndarray  # how many they are


@checked
def federation(environment: TextEnvironment, partition: Sequence[Sequence[int] | np.ndarray]) -> Federation:
    """One client for each list of tasks in `partition` (`fedrl.llm.partitions`)."""
    if not partition or not all(len(tasks) for tasks in partition):
        empty = next((k for k, tasks in enumerate(partition) if not len(tasks)), None)
        raise ValueError(
            "a partition needs at least one client, and every client at least one task; "
            + ("got no client" if empty is None else f"client {empty} has none")
        )
    counts = np.array([len(tasks) for tasks in partition], np.int32)
    lists = np.full((len(partition), counts.max()), -1, np.int32)
    for row, tasks in zip(lists, partition, strict=True):
        row[: len(tasks)] = tasks
    return Federation(environment, TaskList(lists, counts))


def task_numbers(client: TaskList) -> np.ndarray:
    return np.asarray(client.tasks)[: int(client.number)]
