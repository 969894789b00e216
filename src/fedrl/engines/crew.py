"""The work of cohorts divided among workers, wherever they live; what a dead one left undone is done again.

Work is a pure function of what is sent, so it does not matter who does it, or how often: the bytes are the same.
"""

import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from fedrl.engines import client_work, wire
from fedrl.engines.driver import Crew
from fedrl.engines.gathering import Answers, Asked
from fedrl.engines.placement import settled
from fedrl.engines.tasks import Piece, Task, code_of, tasks
from fedrl.environments.errors import Diverged, WorldError
from fedrl.faults import ClientFault, Faults, Why
from fedrl.trees import row
from fedrl.types import Exchange

KINDS = {kind.__name__: kind for kind in (WorldError, Diverged)}
MOST_DEATHS = 3  # of workers, in a row, at the work of one client

_runs = itertools.count()


Came = tuple[list | ClientFault, float | None]  # a piece's arrays, or how its client failed; the seconds it took


class Workplace(Protocol):
    """Where workers live. They are numbered from zero; a number stays, whoever holds it."""

    count: int
    lock: threading.Lock

    def submit(self, worker: int, task: Task) -> None:
        """Give an idle worker something to do."""
        ...

    def wait(self, deadline: float | None) -> Sequence[tuple[int, bytes | np.ndarray | Why]]:
        """Block until somebody is done: (worker, its answer), or (worker, DIED or LATE). Whoever holds that number then is
        new. LATE is a worker whose task has taken more than `deadline` seconds, or that cannot say how long it took.
        """
        ...

    def abandon(self) -> None:
        """Cancel all work in progress: its answers must not be heard by whoever asks next."""
        ...

    def forget(self, run: int) -> None: ...


def crew(place: Workplace, exchanges: tuple[Exchange, ...], faults: Faults) -> Crew:
    """The crew of one run at `place`; several runs may share it."""
    run, code = next(_runs), code_of(exchanges)
    seconds: dict[tuple[str, int], float] = {}  # what a client's work took last time
    homes: dict[str, tuple[list[Piece], list[list[int]]]] = {}  # exchange -> its last pieces, and where each was
    structures: dict[str, Any] = {}  # exchange -> the structure of one client's answer

    def perform(exchange: Exchange, seeds: Sequence[Asked]) -> list[Answers]:
        ids = [np.asarray(asked.cohort.ids).tolist() for asked in seeds]
        pieces = [Piece(seed, slot, ids[seed][slot]) for seed, asked in enumerate(seeds) for slot in asked.slots()]
        expected = {i: seconds.get((exchange.name, piece.client), 1.0) for i, piece in enumerate(pieces)}
        pieces_before, before = homes.get(exchange.name, ([], []))
        places = settled(before if pieces_before == pieces else [], range(len(pieces)), expected, place.count)
        homes[exchange.name] = pieces, places

        given = [tasks(run, code, exchange, asked) for asked in seeds]
        with place.lock:
            done = _carry_out(place, given, [[pieces[i] for i in mine] for mine in places], exchange.name, faults)
        if exchange.name not in structures:
            server, rows, cohort, key = seeds[0][1:]
            one = client_work.shapes(exchange, server, row(rows, 0), cohort, cohort.ids[0], key)
            structures[exchange.name] = jax.tree.structure(one)
        found: list[Answers] = [{} for _ in seeds]
        for piece, (came, took) in done.items():
            if took is not None:
                seconds[exchange.name, piece.client] = took
            whole = came if isinstance(came, ClientFault) else _tree(structures[exchange.name], came)
            found[piece.seed][piece.slot] = whole
        return found

    def close() -> None:
        with place.lock:
            place.forget(run)

    return Crew(perform, close)


def _tree(structure: Any, leaves: list) -> Any:
    """The answer as a tree; a list, which fits nothing, if it has another number of arrays."""
    return jax.tree.unflatten(structure, leaves) if structure.num_leaves == len(leaves) else leaves


def _carry_out(
    place: Workplace,
    given: list[Callable[[list[Piece]], Task]],
    places: list[list[Piece]],
    exchange: str,
    faults: Faults,
) -> dict[Piece, Came]:
    """What each piece came to. Workers that have done all of theirs take from the longest queue.

    After a death its pieces are given out one by one, to find who is to blame; with a deadline, all are from the start.
    """
    done: dict[Piece, Came] = {}
    deaths: Counter[Piece] = Counter()
    working: dict[int, list[Piece]] = {}
    alone = faults.deadline is not None
    queues = [deque([[piece] for piece in sorted(mine)] if alone else _by_seed(mine)) for mine in places]
    waiting: deque[list[Piece]] = deque()

    def give_out() -> None:
        for worker, mine in enumerate(queues):
            if worker not in working and (queue := mine or waiting or max(queues, key=len)):
                pieces = working[worker] = queue.popleft()
                place.submit(worker, given[pieces[0].seed](pieces))

    try:
        give_out()
        while working:
            for worker, answer in place.wait(faults.deadline):
                pieces = working.pop(worker)
                if answer is Why.LATE:
                    done |= {piece: (_late(piece, exchange, faults.deadline), None) for piece in pieces}
                elif answer is Why.DIED:
                    deaths.update(pieces)
                    lost = [piece for piece in pieces if deaths[piece] >= MOST_DEATHS]
                    done |= {piece: (_died(piece), None) for piece in lost}
                    waiting += [[piece] for piece in pieces if piece not in lost]
                else:
                    done |= _read(pieces, answer)
            give_out()
    except BaseException:
        place.abandon()
        raise
    return done


def _read(pieces: list[Piece], answer: Any) -> dict[Piece, Came]:
    leaves, note = wire.unpack(answer)
    if "error" in note:
        raise RuntimeError(note["error"])
    faults, seconds = note["faults"], note["seconds"]
    size = len(leaves) // max(1, len(pieces) - len(faults))
    read: dict[Piece, Came] = {}
    for i, piece in enumerate(pieces):
        if report := faults.get(str(i)):
            kind = KINDS.get(report.get("kind", ""), RuntimeError)
            read[piece] = ClientFault(Why.RAISED, kind(report["error"])), None
        else:
            read[piece], leaves = (leaves[:size], seconds[i]), leaves[size:]
    return read


def _late(piece: Piece, exchange: str, deadline: float | None) -> ClientFault:
    return ClientFault(
        Why.LATE,
        WorldError(
            f"client {piece.client}, exchange {exchange!r}: no answer within the deadline of {deadline:g} s; look for a "
            "step that hangs, allow more time, or leave such clients out: faults=leave_out(deadline=…)"
        ),
    )


def _died(piece: Piece) -> ClientFault:
    return ClientFault(
        Why.DIED,
        RuntimeError(
            f"{MOST_DEATHS} workers in a row died at the work of client {piece.client}; if memory ran out, use fewer "
            "workers or a smaller batch; to see its environment crash, train with engine=one_at_a_time()"
        ),
    )


def _by_seed(pieces: list[Piece]) -> list[list[Piece]]:
    return [list(mine) for _, mine in itertools.groupby(sorted(pieces), lambda piece: piece.seed)]
