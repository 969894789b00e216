"""Clients' work as bytes that can be sent to a worker anywhere (`worker.py` is the other end)."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import cloudpickle
import jax
import numpy as np

from fedrl.core.round import WorkRequest
from fedrl.engines import wire
from fedrl.types import Exchange


class WorkItem(NamedTuple):
    """One client's work."""

    seed: int  # of those played together, counted from zero
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


def tasks(run: int, code: bytes, exchange: Exchange, request: WorkRequest) -> Callable[[list[WorkItem]], Task]:
    """(some of the cohort) -> their task; what all of them are sent is packed once."""
    common = request.server, request.cohort, request.key
    sent = wire.pack([wire.on_host(x) for x in jax.tree.leaves(common)])
    columns = [wire.on_host(x) for x in jax.tree.leaves(request.clients)]
    structure = _structures(jax.tree.structure(common), jax.tree.structure(request.clients))

    def task(items: list[WorkItem]) -> Task:
        slots = [item.slot for item in items]
        return Task(run, code, exchange.name, structure, sent, wire.pack([x[np.array(slots)] for x in columns], slots))

    return task


def code_of(exchanges: tuple[Exchange, ...]) -> bytes:
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
