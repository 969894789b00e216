"""A cohort's work divided among workers, wherever they live; what a dead one left undone is done again.

Work is a pure function of what is sent, so it does not matter who does it, or how often: the bytes are the same.
"""

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.engines import client_work, wire
from fedrl.engines.driver import Crew, row
from fedrl.engines.placement import settled
from fedrl.environments.errors import Diverged, WorldError
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Server

KINDS = {kind.__name__: kind for kind in (WorldError, Diverged)}
MOST_DEATHS = 3  # of workers, in a row, at the work of one client

_runs = itertools.count()


class Task(NamedTuple):
    """Some clients' work in one exchange, as bytes; `Worker.work` says what each is."""

    run: int
    code: bytes
    exchange: str
    structure: bytes
    common: bytes
    rows: bytes


class Workplace(Protocol):
    """Where workers live. They are numbered from zero; a number stays, whoever holds it."""

    count: int
    lock: threading.Lock

    def submit(self, worker: int, task: Task) -> None:
        """Give an idle worker something to do."""
        ...

    def wait(self) -> Sequence[tuple[int, bytes | np.ndarray | None]]:
        """Block until somebody is done: (worker, its answer), or (worker, None) if it died over its task."""
        ...

    def abandon(self) -> None:
        """Nobody will ask for what is being done now."""
        ...

    def forget(self, run: int) -> None: ...


def crew(place: Workplace, exchanges: tuple[Exchange, ...]) -> Crew:
    """The crew of one run at `place`; several runs may share it."""
    run, code = next(_runs), _code(exchanges)
    seconds: dict[tuple[str, int], float] = {}  # what a client's work took last time
    homes: dict[str, tuple[list[int], list[list[int]]]] = {}  # exchange -> its last cohort, and where each was
    answers: dict[str, Any] = {}  # exchange -> the structure of one client's answer

    def perform(exchange: Exchange, server: Server, rows: Client, cohort: Cohort, key: Key) -> tuple[Tree, Tree, Array]:
        ids = np.asarray(cohort.ids).tolist()
        expected = {slot: seconds.get((exchange.name, client), 1.0) for slot, client in enumerate(ids)}
        cohort_before, before = homes.get(exchange.name, ([], []))
        places = settled(before if cohort_before == ids else [], range(len(ids)), expected, place.count)
        homes[exchange.name] = ids, places

        common = wire.pack([wire.on_host(x) for x in jax.tree.leaves((server, cohort, key))])
        columns = [wire.on_host(x) for x in jax.tree.leaves(rows)]
        structure = _structures(jax.tree.structure((server, cohort, key)), jax.tree.structure(rows))

        def task(slots: list[int]) -> Task:
            mine = wire.pack([x[np.array(slots)] for x in columns], slots)
            return Task(run, code, exchange.name, structure, common, mine)

        with place.lock:
            done = _carry_out(place, task, places, ids)
        if exchange.name not in answers:
            one = client_work.shapes(exchange, server, row(rows, 0), cohort, cohort.ids[0], key)
            answers[exchange.name] = jax.tree.structure(one)
        for slot, (_, took) in done.items():
            if took is not None:
                seconds[exchange.name, ids[slot]] = took
        like = answers[exchange.name]
        return jax.tree.map(_stack, *(jax.tree.unflatten(like, done[slot][0]) for slot in range(len(ids))))

    def close() -> None:
        with place.lock:
            place.forget(run)

    return Crew(perform, close)


def _carry_out(place: Workplace, task: Any, places: list[list[int]], ids: list[int]) -> dict[int, tuple[list, Any]]:
    """Each slot's leaves and seconds. After a death its clients are given out one by one, to find who is to blame."""
    done: dict[int, tuple[list, Any]] = {}
    deaths = [0] * len(ids)
    faults: list[dict] = []
    working: dict[int, list[int]] = {}
    waiting: deque[list[int]] = deque()

    def give(worker: int, slots: list[int]) -> None:
        working[worker] = slots
        place.submit(worker, task(slots))

    try:
        for worker, slots in enumerate(places):
            if slots:
                give(worker, slots)
        while working:
            for worker, answer in place.wait():
                slots = working.pop(worker)
                if answer is None:
                    _count_deaths(deaths, slots, ids)
                    waiting += [[slot] for slot in slots]
                    continue
                leaves, note = wire.unpack(answer)
                if "error" in note:
                    faults.append(note)
                    continue
                size = len(leaves) // len(slots)
                for i, slot in enumerate(slots):
                    done[slot] = leaves[i * size : (i + 1) * size], note["seconds"][i]
            for worker in range(place.count):
                if waiting and worker not in working:
                    give(worker, waiting.popleft())
    except BaseException:
        place.abandon()
        raise
    if faults:
        fault = min(faults, key=lambda fault: fault["slot"])
        raise KINDS.get(fault.get("kind", ""), RuntimeError)(fault["error"])
    return done


def _count_deaths(deaths: list[int], slots: list[int], ids: list[int]) -> None:
    for slot in slots:
        deaths[slot] += 1
        if deaths[slot] >= MOST_DEATHS:
            raise RuntimeError(
                f"{MOST_DEATHS} workers in a row died at the work of client {ids[slot]}; if memory ran out, use fewer "
                "workers or a smaller batch; to see its environment crash, train with engine=one_at_a_time()"
            )


def _code(exchanges: tuple[Exchange, ...]) -> bytes:
    """The clients' side of the exchanges; what the server does is left out."""
    try:
        return cloudpickle.dumps(
            tuple(e._replace(choose=_at_home, combine=_at_home, receive=_at_home) for e in exchanges)
        )
    except Exception as error:
        raise TypeError(
            f"the algorithm cannot be sent to workers: {type(error).__name__}: {error}; open files, locks, connections "
            "and simulators inside the environment's `open`, which runs in the worker"
        ) from error


def _at_home(*_: Any) -> Any:
    raise RuntimeError("the server's side of an exchange is played in the main process")


@lru_cache(maxsize=64)
def _structures(*structures: Any) -> bytes:
    """As trees with nothing in them, a form that can be sent whatever they are made of."""
    return cloudpickle.dumps([jax.tree.unflatten(one, [0] * one.num_leaves) for one in structures])


def _stack(*leaves: Any) -> Any:
    return jnp.stack(leaves) if isinstance(leaves[0], jax.Array) else np.stack(leaves)
