"""A worker: does the work of some clients, keeping compiled programs and open simulators between rounds.

The same `Worker` is a process of `processes` (this file run with a connection) and an actor of `ray`.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from functools import lru_cache
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import cloudpickle
import jax
import numpy as np

from fedrl.engines import cache, wire
from fedrl.engines.client_work import ClientWork, client_work
from fedrl.engines.shared_cache import open_shared
from fedrl.engines.work_timer import WorkTimer
from fedrl.environments.checks import WarningSink
from fedrl.environments.errors import EnvironmentFailed
from fedrl.rollouts import host
from fedrl.rollouts.compiling import Compiled, CompileListener
from fedrl.types import Exchange

READY = b"ready"
PAUSED, RUNNING = b"paused", b"running"  # the timer of a worker's current work (`work_timer.py`)
FORGOT = b"forgot"  # the simulators of a run are closed
NUMERIC_SETTINGS = (  # of JAX: they decide numbers, or whether a program is valid
    "jax_enable_x64",
    "jax_platforms",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_matmul_precision",
    "jax_debug_nans",
)


def settings(threads: int) -> dict[str, Any]:
    """Settings that a worker shares with this process; its simulators may use `threads` threads."""
    return {
        "path": search_path(),
        "jax": {name: jax.config.values[name] for name in NUMERIC_SETTINGS},
        "threads": threads,
    }


def search_path() -> list[str]:
    """Where this process finds modules, as absolute paths."""
    return [folder or os.getcwd() for folder in sys.path]


class Worker:
    """Requests and results are bytes (`wire.py`), so that it can be anywhere."""

    def __init__(self, settings: dict[str, Any]):
        sys.path += [folder for folder in settings["path"] if folder not in sys.path]
        os.environ.setdefault("FEDRL_THREADS", str(settings["threads"]))
        for name, value in settings["jax"].items():
            jax.config.update(name, value)
        cache.enable()
        self.cache = open_shared()
        self.runs: dict[int, dict[str, ClientWork] | str] = {}
        self.warm: set[tuple[int, str]] = set()
        self.timer = WorkTimer()
        self.warnings: list[str] = []
        WarningSink.emit = self.warnings.append
        CompileListener.notify = self.pause_timer

    def pause_timer(self, paused: bool) -> None:
        """Pause the timer of the current work, or let it go on."""
        self.timer.pause(paused)

    def ready(self) -> bytes:
        return READY

    def learn(self, run: int, code: bytes) -> None:
        """Load the exchanges of a run. If they cannot be loaded, the first request for their work reports it."""
        try:
            exchanges: tuple[Exchange, ...] = cloudpickle.loads(code)
            self.runs[run] = {exchange.name: client_work(exchange, Compiled) for exchange in exchanges}
        except Exception as error:
            self.runs[run] = (
                f"a worker cannot load the algorithm's code: {type(error).__name__}: {error}; "
                "install the module on every machine that works, or define what is needed in the script itself"
            )

    def work(self, run: int, exchange: str, structure: bytes, common: Any, rows: bytes) -> bytes:
        """The work of some clients, one after the other: their results, packed.

        The note has the "seconds" of every client (None if it compiled), the "faults" of clients that failed, by their
        place, and "warnings"; or only an "error", if no work could be done.
        """
        programs = self.runs[run]
        if isinstance(programs, str):
            return wire.pack([], {"error": programs})
        try:
            columns, slots = wire.unpack(rows)
            of_common, of_row = _structure(structure)
            server, cohort, key = jax.device_put(_unflatten(of_common, wire.unpack(common)[0]))
            clients = [_unflatten(of_row, [column[at] for column in columns]) for at in range(len(slots))]
        except Exception as error:
            return wire.pack([], {"error": f"exchange {exchange!r}: {_describe(error)}"})
        leaves, seconds, faults = [], [], {}
        for at, client in enumerate(clients):
            self.timer.start(paused=False)
            started_at = time.perf_counter()
            try:
                result = jax.block_until_ready(programs[exchange](server, client, cohort, np.int32(slots[at]), key))
                leaves += jax.tree.leaves(result)
            except Exception as error:
                faults[at] = _report(error, int(columns[0][at]), exchange)
            seconds.append(time.perf_counter() - started_at if (run, exchange) in self.warm else None)
            self.warm.add((run, exchange))
        if self.cache:
            self.cache.publish()
        new_warnings, self.warnings[:] = list(self.warnings), []
        return wire.pack(leaves, {"seconds": seconds, "faults": faults, "warnings": new_warnings})

    def forget(self, run: int) -> None:
        self.runs.pop(run, None)
        self.warm = {pair for pair in self.warm if pair[0] != run}
        host.close_all()


def _report(error: Exception, client: int, exchange: str) -> dict[str, Any]:
    if isinstance(error, EnvironmentFailed):
        return {"error": str(error), "kind": type(error).__name__}
    return {"error": f"client {client}, exchange {exchange!r}: {_describe(error)}"}


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}\nIn the worker:\n{''.join(traceback.format_exception(error))}"


@lru_cache(maxsize=64)
def _structure(skeletons: bytes) -> tuple[Any, Any]:
    common, row = cloudpickle.loads(skeletons)
    return jax.tree.structure(common), jax.tree.structure(row)


def _unflatten(structure: Any, leaves: list[Any]) -> Any:
    if structure.num_leaves != len(leaves):
        raise RuntimeError(
            f"{len(leaves)} arrays came for a tree of {structure.num_leaves}; a class registered with JAX as a tree must "
            "be defined in a module that workers can import, not in the script"
        )
    return jax.tree.unflatten(structure, leaves)


def main(descriptor: int) -> None:
    """Serve the process at the other end of the connection until it says stop, or has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    os.register_at_fork(after_in_child=connection.close)  # a child of a simulator must not keep it open
    inbox: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        while True:
            try:
                inbox.put(connection.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)  # the main process has ended, so the current work is of no use

    def send(message: bytes) -> None:
        try:
            connection.send_bytes(message)
        except OSError:  # as above
            os._exit(0)

    class ReportingWorker(Worker):
        """Its timer is in the main process."""

        def pause_timer(self, paused: bool) -> None:
            send(PAUSED if paused else RUNNING)

    threading.Thread(target=listen, daemon=True).start()
    worker = ReportingWorker(json.loads(inbox.get()))
    send(worker.ready())
    while True:
        match json.loads(inbox.get()):
            case ["learn", run]:
                worker.learn(run, inbox.get())
            case ["work", run, exchange]:
                worker.pause_timer(False)
                send(worker.work(run, exchange, inbox.get(), inbox.get(), inbox.get()))
            case ["forget", run]:
                worker.forget(run)
                send(FORGOT)
            case ["stop"]:
                host.close_all()
                os._exit(0)
