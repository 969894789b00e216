"""The work of cohorts divided among workers, wherever they live; what a dead one left undone is done again.

Work is a pure function of what is sent, so it does not matter who does it, or how often: the bytes are the same.
"""

import itertools
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from fedrl.core.client import WorkResult
from fedrl.core.round import WorkRequest
from fedrl.engines import wire
from fedrl.engines.collecting import Answers, collected, slots_asked
from fedrl.engines.driver import ClientExecutor
from fedrl.engines.fault_log import Tell
from fedrl.engines.placement import settled
from fedrl.engines.tasks import Task, WorkItem, code_of, tasks
from fedrl.environments.errors import EnvironmentFailed, TrainingDiverged
from fedrl.faults import ClientFault, FaultCode, Faults
from fedrl.types import Exchange

KINDS = {kind.__name__: kind for kind in (EnvironmentFailed, TrainingDiverged)}
MOST_DEATHS = 3  # of workers, in a row, at the work of one client

_runs = itertools.count()


Came = tuple[list | ClientFault, float | None]  # a item's arrays, or how its client failed; the seconds it took


class WorkerPool(Protocol):
    """Where workers live. They are numbered from zero; a number stays, whoever holds it."""

    count: int
    lock: threading.Lock

    def submit(self, worker: int, task: Task) -> None:
        """Give an idle worker something to do."""
        ...

    def wait(self, deadline: float | None) -> Sequence[tuple[int, bytes | np.ndarray | FaultCode]]:
        """Block until somebody is done: (worker, its answer), or (worker, DIED or LATE). Whoever holds that number then is
        new. LATE is a worker whose task has taken more than `deadline` seconds, or that cannot say how long it took.
        """
        ...

    def abandon(self) -> None:
        """Cancel all work in progress: its answers must not be heard by whoever asks next."""
        ...

    def forget(self, run: int) -> None: ...


def worker_pool(pool: WorkerPool, exchanges: tuple[Exchange, ...], faults: Faults, tell: Tell) -> ClientExecutor:
    """The executor of one run on `pool`; several runs may share it."""
    work = _PooledRun(pool, exchanges, faults)
    return ClientExecutor(collected(work.perform, faults, tell), work.close)


class _PooledRun:
    """What one run knows of its work on a pool: its number and code there, and where which client's work is quick."""

    def __init__(self, pool: WorkerPool, exchanges: tuple[Exchange, ...], faults: Faults):
        self.pool, self.faults = pool, faults
        self.run, self.code = next(_runs), code_of(exchanges)
        self.seconds: dict[tuple[str, int], float] = {}  # what a client's work took last time
        self.places: dict[str, tuple[list[WorkItem], list[list[int]]]] = {}  # exchange -> its last items, and where
        self.warned = False

    def perform(self, exchange: Exchange, requests: Sequence[WorkRequest], expected: WorkResult) -> list[Answers]:
        ids = [np.asarray(request.cohort.ids).tolist() for request in requests]
        items = [
            WorkItem(seed, slot, ids[seed][slot])
            for seed, request in enumerate(requests)
            for slot in slots_asked(request)
        ]
        given = [tasks(self.run, self.code, exchange, request) for request in requests]
        queues = [[items[i] for i in mine] for mine in self._placed(exchange.name, items)]
        with self.pool.lock:
            done = _carry_out(self.pool, given, queues, exchange.name, self.faults, self._warn)
        structure = jax.tree.structure(expected)
        answers: list[Answers] = [{} for _ in requests]
        for item, (came, took) in done.items():
            if took is not None:
                self.seconds[exchange.name, item.client] = took
            answers[item.seed][item.slot] = came if isinstance(came, ClientFault) else _tree(structure, came)
        return answers

    def _placed(self, exchange: str, items: list[WorkItem]) -> list[list[int]]:
        """Which worker does which items."""
        expected = {i: self.seconds.get((exchange, item.client), 1.0) for i, item in enumerate(items)}
        items_before, before = self.places.get(exchange, ([], []))
        places = settled(before if items_before == items else [], range(len(items)), expected, self.pool.count)
        self.places[exchange] = items, places
        return places

    def _warn(self, text: str) -> None:
        """Every worker warns once, and so does the run."""
        if not self.warned:
            warnings.warn(text, stacklevel=2)
        self.warned = True

    def close(self) -> None:
        with self.pool.lock:
            self.pool.forget(self.run)


def _tree(structure: Any, leaves: list) -> Any:
    """The answer as a tree; a list, which fits nothing, if it has another number of arrays."""
    return jax.tree.unflatten(structure, leaves) if structure.num_leaves == len(leaves) else leaves


def _carry_out(
    pool: WorkerPool,
    given: list[Callable[[list[WorkItem]], Task]],
    places: list[list[WorkItem]],
    exchange: str,
    faults: Faults,
    warn: Callable[[str], None],
) -> dict[WorkItem, Came]:
    """What each item came to. Workers that have done all of theirs take from the longest queue.

    After a death its items are given out one by one, to find who is to blame; with a deadline, all are from the start.
    """
    done: dict[WorkItem, Came] = {}
    deaths: Counter[WorkItem] = Counter()
    working: dict[int, list[WorkItem]] = {}
    alone = faults.deadline is not None
    queues = [deque([[item] for item in sorted(mine)] if alone else _by_seed(mine)) for mine in places]
    waiting: deque[list[WorkItem]] = deque()

    def give_out() -> None:
        for worker, mine in enumerate(queues):
            if worker not in working and (queue := mine or waiting or max(queues, key=len)):
                items = working[worker] = queue.popleft()
                pool.submit(worker, given[items[0].seed](items))

    try:
        give_out()
        while working:
            for worker, answer in pool.wait(faults.deadline):
                items = working.pop(worker)
                if answer is FaultCode.LATE:
                    done |= {item: (_late(item, exchange, faults.deadline), None) for item in items}
                elif answer is FaultCode.DIED:
                    deaths.update(items)
                    lost = [item for item in items if deaths[item] >= MOST_DEATHS]
                    done |= {item: (_died(item), None) for item in lost}
                    waiting += [[item] for item in items if item not in lost]
                else:
                    done |= _read(items, answer, warn)
            give_out()
    except BaseException:
        pool.abandon()
        raise
    return done


def _read(items: list[WorkItem], answer: Any, warn: Callable[[str], None]) -> dict[WorkItem, Came]:
    leaves, note = wire.unpack(answer)
    if "error" in note:
        raise RuntimeError(note["error"])
    for text in note["warnings"]:
        warn(text)
    faults, seconds = note["faults"], note["seconds"]
    size = len(leaves) // max(1, len(items) - len(faults))
    read: dict[WorkItem, Came] = {}
    for i, item in enumerate(items):
        if report := faults.get(str(i)):
            kind = KINDS.get(report.get("kind", ""), RuntimeError)
            read[item] = ClientFault(FaultCode.RAISED, kind(report["error"])), None
        else:
            read[item], leaves = (leaves[:size], seconds[i]), leaves[size:]
    return read


def _late(item: WorkItem, exchange: str, deadline: float | None) -> ClientFault:
    return ClientFault(
        FaultCode.LATE,
        EnvironmentFailed(
            f"client {item.client}, exchange {exchange!r}: no answer within the deadline of {deadline:g} s; look for a "
            "step that hangs, allow more time, or leave such clients out: faults=leave_out(deadline=…)"
        ),
    )


def _died(item: WorkItem) -> ClientFault:
    return ClientFault(
        FaultCode.DIED,
        RuntimeError(
            f"{MOST_DEATHS} workers in a row died at the work of client {item.client}; if memory ran out, use fewer "
            "workers or a smaller batch; to see its environment crash, train with engine=one_at_a_time()"
        ),
    )


def _by_seed(items: list[WorkItem]) -> list[list[WorkItem]]:
    return [list(mine) for _, mine in itertools.groupby(sorted(items), lambda item: item.seed)]
