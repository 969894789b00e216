"""Divides the work of cohorts among workers, wherever they run; the work of a worker that died is done again.

Work is a pure function of what is sent, so any worker may do it, more than once: the bytes are the same.
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
from fedrl.engines.client_results import ClientResults, collecting_executor, present_slots
from fedrl.engines.driver import ClientExecutor
from fedrl.engines.fault_log import ReportFault
from fedrl.engines.scheduling import reschedule
from fedrl.engines.work_batches import WorkBatch, WorkItem, batch_packer, client_code
from fedrl.environments.errors import EnvironmentFailed, TrainingDiverged
from fedrl.faults import ClientFault, FaultCode, Faults
from fedrl.types import Exchange

ERROR_TYPES = {error.__name__: error for error in (EnvironmentFailed, TrainingDiverged)}
MOST_DEATHS = 3  # of workers at the work of one client, before it is a fault

_runs = itertools.count()

ItemResult = tuple[list[Any] | ClientFault, float | None]  # the arrays of a work item, or its fault; seconds it took


class WorkerPool(Protocol):
    """Workers, numbered from zero. A worker that replaces another has its number."""

    count: int
    lock: threading.Lock

    def submit(self, worker: int, batch: WorkBatch) -> None:
        """Give work to an idle worker."""
        ...

    def wait(self, deadline: float | None) -> Sequence[tuple[int, bytes | np.ndarray | FaultCode]]:
        """Block until some worker is done: (worker, its result), or (worker, DIED or LATE) if it has been replaced.

        LATE: its work has taken more than `deadline` seconds, or it does not respond.
        """
        ...

    def abandon(self) -> None:
        """Cancel all work in progress; the next run must not receive its results."""
        ...

    def forget(self, run: int) -> None: ...


def worker_pool(
    pool: WorkerPool, exchanges: tuple[Exchange, ...], faults: Faults, report_fault: ReportFault
) -> ClientExecutor:
    """The executor of one run on `pool`; several runs may share the pool."""
    work = _PooledRun(pool, exchanges, faults)
    return ClientExecutor(collecting_executor(work.perform, faults, report_fault), work.close)


class _PooledRun:
    """One run on a pool: its number and code, how long each client's work takes, and which worker does it."""

    def __init__(self, pool: WorkerPool, exchanges: tuple[Exchange, ...], faults: Faults):
        self.pool, self.faults = pool, faults
        self.run, self.code = next(_runs), client_code(exchanges)
        self.seconds: dict[tuple[str, int], float] = {}  # (exchange, client) -> the duration of its last work
        self.places: dict[str, tuple[list[WorkItem], list[list[int]]]] = {}  # exchange -> its last schedule
        self.warned = False

    def perform(self, exchange: Exchange, requests: Sequence[WorkRequest], expected: WorkResult) -> list[ClientResults]:
        ids = [np.asarray(request.cohort.ids).tolist() for request in requests]
        items = [
            WorkItem(seed, slot, ids[seed][slot])
            for seed, request in enumerate(requests)
            for slot in present_slots(request)
        ]
        packers = [batch_packer(self.run, self.code, exchange, request) for request in requests]
        queues = [[items[i] for i in indices] for indices in self._schedule(exchange.name, items)]
        with self.pool.lock:
            item_results = _do_all(self.pool, packers, queues, exchange.name, self.faults, self._warn)
        structure = jax.tree.structure(expected)
        results: list[ClientResults] = [{} for _ in requests]
        for item, (result, seconds) in item_results.items():
            if seconds is not None:
                self.seconds[exchange.name, item.client] = seconds
            results[item.seed][item.slot] = result if isinstance(result, ClientFault) else _tree(structure, result)
        return results

    def _schedule(self, exchange: str, items: list[WorkItem]) -> list[list[int]]:
        """Which worker does which items."""
        seconds = {i: self.seconds.get((exchange, item.client), 1.0) for i, item in enumerate(items)}
        items_before, before = self.places.get(exchange, ([], []))
        places = reschedule(before if items_before == items else [], range(len(items)), seconds, self.pool.count)
        self.places[exchange] = items, places
        return places

    def _warn(self, text: str) -> None:
        """Every worker warns once; the run passes on one warning."""
        if not self.warned:
            warnings.warn(text, stacklevel=2)
        self.warned = True

    def close(self) -> None:
        with self.pool.lock:
            self.pool.forget(self.run)


def _tree(structure: Any, leaves: list[Any]) -> Any:
    """The result as a tree; with another number of arrays, the list itself, which `collect` reports as a fault."""
    return jax.tree.unflatten(structure, leaves) if structure.num_leaves == len(leaves) else leaves


def _do_all(
    pool: WorkerPool,
    packers: list[Callable[[list[WorkItem]], WorkBatch]],  # by seed
    places: list[list[WorkItem]],
    exchange: str,
    faults: Faults,
    warn: Callable[[str], None],
) -> dict[WorkItem, ItemResult]:
    """The result of each item. Workers whose queue is empty take from the longest one.

    The items of a worker that died are sent one by one, to find the client at fault; with a deadline, all items are.
    """
    results: dict[WorkItem, ItemResult] = {}
    deaths: Counter[WorkItem] = Counter()
    working: dict[int, list[WorkItem]] = {}
    one_by_one = faults.deadline is not None
    queues = [deque([[item] for item in sorted(place)] if one_by_one else _by_seed(place)) for place in places]
    retries: deque[list[WorkItem]] = deque()

    def submit_all() -> None:
        for worker, own_queue in enumerate(queues):
            if worker not in working and (queue := own_queue or retries or max(queues, key=len)):
                items = working[worker] = queue.popleft()
                pool.submit(worker, packers[items[0].seed](items))

    try:
        submit_all()
        while working:
            for worker, result in pool.wait(faults.deadline):
                items = working.pop(worker)
                if result is FaultCode.LATE:
                    results |= {item: (_late(item, exchange, faults.deadline), None) for item in items}
                elif result is FaultCode.DIED:
                    deaths.update(items)
                    fatal = [item for item in items if deaths[item] >= MOST_DEATHS]
                    results |= {item: (_died(item), None) for item in fatal}
                    retries += [[item] for item in items if item not in fatal]
                else:
                    results |= _unpack(items, result, warn)
            submit_all()
    except BaseException:
        pool.abandon()
        raise
    return results


def _unpack(items: list[WorkItem], message: Any, warn: Callable[[str], None]) -> dict[WorkItem, ItemResult]:
    leaves, note = wire.unpack(message)
    if "error" in note:
        raise RuntimeError(note["error"])
    for text in note["warnings"]:
        warn(text)
    faults, seconds = note["faults"], note["seconds"]
    size = len(leaves) // max(1, len(items) - len(faults))
    results: dict[WorkItem, ItemResult] = {}
    for i, item in enumerate(items):
        if report := faults.get(str(i)):
            error_type = ERROR_TYPES.get(report.get("kind", ""), RuntimeError)
            results[item] = ClientFault(FaultCode.RAISED, error_type(report["error"])), None
        else:
            results[item], leaves = (leaves[:size], seconds[i]), leaves[size:]
    return results


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
    return [list(group) for _, group in itertools.groupby(sorted(items), lambda item: item.seed)]
