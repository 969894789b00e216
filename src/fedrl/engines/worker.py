"""A worker: does the work of the clients it is given, keeping compiled programs and open simulators between rounds.

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
from fedrl.engines.clock import Clock
from fedrl.environments.checks import WarningSink
from fedrl.environments.errors import EnvironmentFailed
from fedrl.rollouts import host
from fedrl.rollouts.compiling import Compiled, CompileListener
from fedrl.types import Exchange

READY = b"ready"
HELD, GOING = b"held", b"going"  # the clock of a worker's current work (`clock.py`)
FORGOT = b"forgot"  # a run's simulators are closed
NUMBERS = (  # JAX's settings that decide numbers, or whether a program is one
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
    """What a worker must have in common with this process; `threads` are those its simulators may use."""
    return {"path": search_path(), "jax": {name: jax.config.values[name] for name in NUMBERS}, "threads": threads}


def search_path() -> list[str]:
    """Where this process finds modules, said so that it holds in any folder."""
    return [folder or os.getcwd() for folder in sys.path]


class Worker:
    """What it is asked for and answers are bytes (`wire.py`), so that it can be anywhere."""

    def __init__(self, settings: dict[str, Any]):
        sys.path += [folder for folder in settings["path"] if folder not in sys.path]
        os.environ.setdefault("FEDRL_THREADS", str(settings["threads"]))
        for name, value in settings["jax"].items():
            jax.config.update(name, value)
        cache.enable()
        # Read the cache of compiled programs but do not write: a worker killed while writing would leave half a file
        jax.config.update("jax_persistent_cache_min_compile_time_secs", float("inf"))
        self.runs: dict[int, dict[str, ClientWork] | str] = {}
        self.warm: set[tuple[int, str]] = set()
        self.clock = Clock()
        self.warnings: list[str] = []
        WarningSink.emit = self.warnings.append
        CompileListener.notify = lambda held: self.turn(held=held)

    def turn(self, *, held: bool) -> None:
        """Hold the clock, or let it go on."""
        self.clock.turn(held=held)

    def ready(self) -> bytes:
        return READY

    def learn(self, run: int, code: bytes) -> None:
        """The exchanges of a run. Code that cannot be loaded is reported when it is first asked for."""
        try:
            exchanges: tuple[Exchange, ...] = cloudpickle.loads(code)
            self.runs[run] = {exchange.name: client_work(exchange, Compiled) for exchange in exchanges}
        except Exception as error:
            self.runs[run] = (
                f"a worker cannot load the algorithm's code: {type(error).__name__}: {error}; "
                "install the module on every machine that works, or define what is needed in the script itself"
            )

    def work(self, run: int, exchange: str, structure: bytes, common: Any, rows: bytes) -> bytes:
        """The whole work of some clients, one after the other: a frame of their answers.

        Its note has the "seconds" of every client, None where it compiled, the "faults" of those who failed, by their place,
        and "warnings"; "error" says instead that nothing could be done.
        """
        programs = self.runs[run]
        if isinstance(programs, str):
            return wire.pack([], {"error": programs})
        try:
            columns, slots = wire.unpack(rows)
            of_common, of_row = _structure(structure)
            server, cohort, key = jax.device_put(_filled(of_common, wire.unpack(common)[0]))
            clients = [_filled(of_row, [column[at] for column in columns]) for at in range(len(slots))]
        except Exception as error:
            return wire.pack([], {"error": f"exchange {exchange!r}: {_described(error)}"})
        leaves, seconds, faults = [], [], {}
        for at, client in enumerate(clients):
            self.clock.start(held=False)
            began = time.perf_counter()
            try:
                answer = jax.block_until_ready(programs[exchange](server, client, cohort, np.int32(slots[at]), key))
                leaves += jax.tree.leaves(answer)
            except Exception as error:
                faults[at] = _report(error, int(columns[0][at]), exchange)
            seconds.append(time.perf_counter() - began if (run, exchange) in self.warm else None)
            self.warm.add((run, exchange))
        said, self.warnings[:] = list(self.warnings), []
        return wire.pack(leaves, {"seconds": seconds, "faults": faults, "warnings": said})

    def forget(self, run: int) -> None:
        self.runs.pop(run, None)
        self.warm = {pair for pair in self.warm if pair[0] != run}
        host.close_all()


def _report(error: Exception, client: int, exchange: str) -> dict[str, Any]:
    if isinstance(error, EnvironmentFailed):
        return {"error": str(error), "kind": type(error).__name__}
    return {"error": f"client {client}, exchange {exchange!r}: {_described(error)}"}


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}\nIn the worker:\n{''.join(traceback.format_exception(error))}"


@lru_cache(maxsize=64)
def _structure(skeletons: bytes) -> tuple[Any, Any]:
    common, row = cloudpickle.loads(skeletons)
    return jax.tree.structure(common), jax.tree.structure(row)


def _filled(structure: Any, leaves: list) -> Any:
    if structure.num_leaves != len(leaves):
        raise RuntimeError(
            f"{len(leaves)} arrays came for a tree of {structure.num_leaves}; a class registered with JAX as a tree must "
            "be defined in a module that workers can import, not in the script"
        )
    return jax.tree.unflatten(structure, leaves)


def main(descriptor: int) -> None:
    """Serve the process at the other end of the connection until it says stop, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    os.register_at_fork(after_in_child=connection.close)  # a simulator's own child must not keep it open
    inbox: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        while True:
            try:
                inbox.put(connection.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)  # the main process is gone, so nobody wants what is being computed

    def answer(words: bytes) -> None:
        try:
            connection.send_bytes(words)
        except OSError:  # as above
            os._exit(0)

    class Told(Worker):
        """Tells the main process how its clock stands."""

        def turn(self, *, held: bool) -> None:
            answer(HELD if held else GOING)

    threading.Thread(target=listen, daemon=True).start()
    worker = Told(json.loads(inbox.get()))
    answer(worker.ready())
    while True:
        match json.loads(inbox.get()):
            case ["learn", run]:
                worker.learn(run, inbox.get())
            case ["work", run, exchange]:
                worker.turn(held=False)
                answer(worker.work(run, exchange, inbox.get(), inbox.get(), inbox.get()))
            case ["forget", run]:
                worker.forget(run)
                answer(FORGOT)
            case ["stop"]:
                host.close_all()
                os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
