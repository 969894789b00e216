"""Clients' work on the machines of a Ray cluster, or on a Ray of one's own: the workers of `processes` as Ray actors."""

import os
import threading
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from fedrl.engines import cache
from fedrl.engines.crew import Task, crew
from fedrl.engines.driver import driven
from fedrl.engines.engine import Engine
from fedrl.engines.worker import Worker, settings

PLACED = 120.0  # seconds the cluster has to find room for the workers
LARGE = 100_000  # bytes; what is larger goes into Ray's store once for all workers


def ray(address: str | None = None, workers: int | None = None) -> Engine:
    """`workers` actors, by default one a core of the cluster at `address` ("auto": the one this machine belongs to).

    Without an address, a Ray of this machine only, started here and ended with this process.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"ray wants at least one worker, got {workers}")
    _imported()
    cache.enable()
    return driven(lambda exchanges: crew(_place(address, workers), exchanges))


def stop() -> None:
    """End all actors, and the Ray that was started here; the next run starts new ones."""
    while _places:
        _places.popitem()[1].stop()
    while _started:
        _started.pop()()


class Actor(Worker):
    """Answers in an array: Ray hands those over without a copy."""

    def answer(self, run: int, exchange: str, structure: bytes, common: Any, rows: bytes) -> np.ndarray:
        return np.frombuffer(self.work(run, exchange, structure, common, rows), np.uint8)


class Actors:
    """A `Workplace` of Ray actors."""

    def __init__(self, count: int, cores: int):
        self.ray = _imported()
        self.count, self.lock = count, threading.Lock()
        self.settings = settings(max(1, cores // count))
        lost = self.ray.exceptions
        self.deaths = (lost.RayActorError, lost.ObjectLostError, lost.WorkerCrashedError, lost.NodeDiedError)
        self.actors: list[Any] = [self._hire(1 if count <= cores else 0) for _ in range(count)]
        self.knows: list[set[int]] = [set() for _ in range(count)]  # runs whose code each has
        self.busy: dict[Any, int] = {}  # reference to the answer -> worker
        self.common: tuple[bytes, Any] = b"", None
        self._await_room()

    def _hire(self, cores: int) -> Any:
        """An actor that takes up `cores`. One in place of another takes none, as its machine may be gone for good."""
        return self.ray.remote(Actor).options(num_cpus=cores, scheduling_strategy="SPREAD").remote(self.settings)

    def _await_room(self) -> None:
        reports = [actor.ready.remote() for actor in self.actors]
        placed, missing = self.ray.wait(reports, num_returns=self.count, timeout=PLACED)
        if missing:
            self.stop()
            raise RuntimeError(
                f"the Ray cluster had room for {len(placed)} of {self.count} workers within {PLACED:.0f} s; ask for fewer, "
                "or see with `ray status` who holds the cores"
            )

    def submit(self, worker: int, task: Task) -> None:
        actor = self.actors[worker]
        if task.run not in self.knows[worker]:
            actor.learn.remote(task.run, task.code)
            self.knows[worker].add(task.run)
        answer = actor.answer.remote(task.run, task.exchange, task.structure, self._once(task.common), task.rows)
        self.busy[answer] = worker

    def _once(self, common: bytes) -> Any:
        """What all workers are sent goes to a machine once, however many work there."""
        if len(common) < LARGE:
            return common
        if self.common[0] is not common:
            self.common = common, self.ray.put(np.frombuffer(common, np.uint8))
        return self.common[1]

    def wait(self) -> list[tuple[int, bytes | np.ndarray | None]]:
        done, _ = self.ray.wait(list(self.busy), num_returns=1)
        worker = self.busy.pop(done[0])
        try:
            return [(worker, self.ray.get(done[0]))]
        except self.deaths:
            self._replace(worker)
            return [(worker, None)]

    def _replace(self, worker: int) -> None:
        self.ray.kill(self.actors[worker])
        self.actors[worker], self.knows[worker] = self._hire(0), set()

    def abandon(self) -> None:
        for worker in self.busy.values():
            self._replace(worker)
        self.busy.clear()

    def forget(self, run: int) -> None:
        self.common = b"", None
        for actor, known in zip(self.actors, self.knows, strict=True):
            if run in known:
                actor.forget.remote(run)
                known.discard(run)

    def stop(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)


_places: dict[tuple[str | None, int | None], Actors] = {}
_started: list[Callable[[], None]] = []  # how to end what was started here


def _place(address: str | None, workers: int | None) -> Actors:
    ray = _imported()
    if not ray.is_initialized():
        _places.clear()  # somebody else has ended it
    if (address, workers) not in _places:
        _connect(ray, address, workers)
        cores = int(ray.cluster_resources().get("CPU", 1))
        _places[address, workers] = Actors(workers or cores, cores)
    return _places[address, workers]


def _imported() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import: Ray reads it there
    try:
        import ray
    except ImportError as error:
        raise ImportError("the ray engine wants Ray; install it with: pip install 'fedrl[ray]'") from error
    return ray


def _connect(ray: ModuleType, address: str | None, workers: int | None) -> None:
    """Join the cluster, or start a Ray here, unless this process already has one."""
    if ray.is_initialized():
        return
    alone = {"num_cpus": workers, "_node_ip_address": "127.0.0.1", "include_dashboard": False}
    with warnings.catch_warnings():
        # Ray forks only to start programs of its own, which JAX cannot know
        warnings.filterwarnings("ignore", message="os.fork\\(\\) was called", category=RuntimeWarning)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **({} if address else alone))
    _started.append(ray.shutdown)
