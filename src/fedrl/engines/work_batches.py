"""Clients' work as bytes that can be sent to a worker anywhere; `worker.py` is the other end."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import cloudpickle
import jax
import numpy as np

from fedrl.core.round import WorkRequest
from fedrl.engines import wire
from fedrl.types import Exchange


class WorkItem(NamedTuple):
    """One client's work."""

    seed: int  # of the seeds played together, counted from zero
    slot: int  # in that seed's cohort
    client: int


class WorkBatch(NamedTuple):
    """Some clients' work in one exchange of one seed, as bytes; `Worker.work` takes them apart."""

    run: int
    code: bytes
    exchange: str
    structure: bytes
    common: bytes
    rows: bytes


def batch_packer(
    run: int, code: bytes, exchange: Exchange, request: WorkRequest
) -> Callable[[list[WorkItem]], WorkBatch]:
    """A function that packs work items of one seed; what all of them share is packed once."""
    common = request.server, request.cohort, request.key
    common_bytes = wire.pack([wire.on_host(x) for x in jax.tree.leaves(common)])
    columns = [wire.on_host(x) for x in jax.tree.leaves(request.clients)]
    structure = _structures(jax.tree.structure(common), jax.tree.structure(request.clients))

    def pack(items: list[WorkItem]) -> WorkBatch:
        slots = [item.slot for item in items]
        return WorkBatch(
            run, code, exchange.name, structure, common_bytes, wire.pack([x[np.array(slots)] for x in columns], slots)
        )

    return pack


def client_code(exchanges: tuple[Exchange, ...]) -> bytes:
    """The clients' side of the exchanges, pickled; the server's side is not sent."""
    try:
        client_side = tuple(
            e._replace(choose=_server_only, combine=_server_only, receive=_server_only) for e in exchanges
        )
        return cast(bytes, cloudpickle.dumps(client_side))
    except Exception as error:
        raise TypeError(
            f"the algorithm cannot be sent to workers: {type(error).__name__}: {error}; open files, locks, connections "
            "and simulators inside the environment's `open`, which runs in the worker"
        ) from error


def _server_only(*_: Any) -> Any:
    raise RuntimeError("the server's side of an exchange is played in the main process")


@lru_cache(maxsize=64)
def _structures(*structures: Any) -> bytes:
    """As trees of zeros, a form that can be pickled whatever the trees are made of."""
    return cast(bytes, cloudpickle.dumps([jax.tree.unflatten(one, [0] * one.num_leaves) for one in structures]))
