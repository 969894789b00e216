"""The work of cohorts divided among workers, wherever they live; what a dead one left undone is done again.

Work is a pure function of what is sent, so it does not matter who does it, or how often: the bytes are the same.
"""

import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np

from fedrl.engines import client_work, wire
from fedrl.engines.driver import Answer, Asked, Crew, row
from fedrl.engines.placement import settled
from fedrl.environments.errors import Diverged, WorldError
from fedrl.types import Exchange

KINDS = {kind.__name__: kind for kind in (WorldError, Diverged)}
MOST_DEATHS = 3  # of workers, in a row, at the work of one client

_runs = itertools.count()


class Piece(NamedTuple):
    """One client's work."""

    seed: int  # of those that are asked together, as a number from zero
    slot: int  # in that seed's cohort
    client: int


class Task(NamedTuple):
    """Some clients' work in one exchange of one seed, as bytes; `Worker.work` says what each is."""

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
    homes: dict[str, tuple[list[Piece], list[list[int]]]] = {}  # exchange -> its last pieces, and where each was
    answers: dict[str, Any] = {}  # exchange -> the structure of one client's answer

    def perform(exchange: Exchange, seeds: Sequence[Asked]) -> list[Answer]:
        pieces = [
            Piece(seed, slot, client)
            for seed, asked in enumerate(seeds)
            for slot, client in enumerate(np.asarray(asked.cohort.ids).tolist())
        ]
        expected = {i: seconds.get((exchange.name, piece.client), 1.0) for i, piece in enumerate(pieces)}
        pieces_before, before = homes.get(exchange.name, ([], []))
        places = settled(before if pieces_before == pieces else [], range(len(pieces)), expected, place.count)
        homes[exchange.name] = pieces, places

        tasks = [_tasks(run, code, exchange, asked) for asked in seeds]
        with place.lock:
            done = _carry_out(place, tasks, [[pieces[i] for i in mine] for mine in places])
        if exchange.name not in answers:
            server, rows, cohort, key = seeds[0][1:]
            one = client_work.shapes(exchange, server, row(rows, 0), cohort, cohort.ids[0], key)
            answers[exchange.name] = jax.tree.structure(one)
        like = answers[exchange.name]
        found: list[list[Any]] = [[] for _ in seeds]
        for piece in pieces:
            leaves, took = done[piece]
            found[piece.seed].append(jax.tree.unflatten(like, leaves))
            if took is not None:
                seconds[exchange.name, piece.client] = took
        return [jax.tree.map(_stack, *of_seed) for of_seed in found]

    def close() -> None:
        with place.lock:
            place.forget(run)

    return Crew(perform, close)


def _tasks(run: int, code: bytes, exchange: Exchange, asked: Asked) -> Callable[[list[Piece]], Task]:
    """(some of the cohort) -> their task; what all of them are sent is packed once."""
    common = asked.server, asked.cohort, asked.key
    sent = wire.pack([wire.on_host(x) for x in jax.tree.leaves(common)])
    columns = [wire.on_host(x) for x in jax.tree.leaves(asked.rows)]
    structure = _structures(jax.tree.structure(common), jax.tree.structure(asked.rows))

    def task(pieces: list[Piece]) -> Task:
        slots = [piece.slot for piece in pieces]
        return Task(run, code, exchange.name, structure, sent, wire.pack([x[np.array(slots)] for x in columns], slots))

    return task


def _carry_out(
    place: Workplace, tasks: list[Callable[[list[Piece]], Task]], places: list[list[Piece]]
) -> dict[Piece, tuple[list, Any]]:
    """Each piece's leaves and seconds. Who has done all of theirs takes from the longest queue.

    After a death its pieces are given out one by one, to find who is to blame.
    """
    done: dict[Piece, tuple[list, Any]] = {}
    deaths: Counter[Piece] = Counter()
    faults: list[tuple[int, int, dict]] = []
    working: dict[int, list[Piece]] = {}
    queues = [deque(_by_seed(mine)) for mine in places]
    waiting: deque[list[Piece]] = deque()

    def give_out() -> None:
        for worker, mine in enumerate(queues):
            if worker not in working and (queue := mine or waiting or max(queues, key=len)):
                pieces = working[worker] = queue.popleft()
                place.submit(worker, tasks[pieces[0].seed](pieces))

    try:
        give_out()
        while working:
            for worker, answer in place.wait():
                pieces = working.pop(worker)
                if answer is None:
                    _count_deaths(deaths, pieces)
                    waiting += [[piece] for piece in pieces]
                    continue
                leaves, note = wire.unpack(answer)
                if "error" in note:
                    faults.append((pieces[0].seed, note["slot"], note))
                    continue
                size = len(leaves) // len(pieces)
                for i, piece in enumerate(pieces):
                    done[piece] = leaves[i * size : (i + 1) * size], note["seconds"][i]
            give_out()
    except BaseException:
        place.abandon()
        raise
    if faults:
        fault = min(faults, key=lambda fault: fault[:2])[2]
        raise KINDS.get(fault.get("kind", ""), RuntimeError)(fault["error"])
    return done


def _by_seed(pieces: list[Piece]) -> list[list[Piece]]:
    return [list(mine) for _, mine in itertools.groupby(sorted(pieces), lambda piece: piece.seed)]


def _count_deaths(deaths: Counter[Piece], pieces: list[Piece]) -> None:
    for piece in pieces:
        deaths[piece] += 1
        if deaths[piece] >= MOST_DEATHS:
            raise RuntimeError(
                f"{MOST_DEATHS} workers in a row died at the work of client {piece.client}; if memory ran out, use fewer "
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
