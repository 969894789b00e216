"""Clients' work on the machines of a Ray cluster, or on a Ray of one's own: the workers of `processes` as Ray actors."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from types import ModuleType
from typing import Any

import numpy as np

from fedrl.arguments import checked
from fedrl.engines import cache
from fedrl.engines.driver import engine_of
from fedrl.engines.engine import Engine
from fedrl.engines.ray_closed import NEXT_MOVE, loopback, prepare_token
from fedrl.engines.work_batches import WorkBatch
from fedrl.engines.work_timer import COMPILING
from fedrl.engines.worker import Worker, settings
from fedrl.engines.worker_pool import worker_pool
from fedrl.faults import FaultCode

PLACED = 120.0  # seconds the cluster has to find room for the workers
CHECKS = "checks"  # the concurrency group of an actor that answers while it works
LOOK = 1.0  # seconds between such checks
SILENCE = 3.0  # seconds after which an actor that does not answer a check is ended
LARGE = 100_000  # bytes; anything larger is put into Ray's store once for all workers


@checked
def ray(address: str | None = None, workers: int | None = None) -> Engine:
    """`workers` actors, by default one per core of the cluster at `address` ("auto": the one this machine belongs to).

    Without an address, a Ray of this machine only, started here and ended with this process.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"ray needs at least one worker, got {workers}")
    _import_ray()
    cache.enable()
    return engine_of(lambda *of_run: worker_pool(_pool(address, workers), *of_run))


def stop() -> None:
    """End all actors, and the Ray that was started here; the next run starts new ones."""
    while _pools:
        _pools.popitem()[1].stop()
    while _shutdowns:
        _shutdowns.pop()()


class Actor(Worker):
    """Returns arrays, which Ray passes on without a copy."""

    def result(self, run: int, exchange: str, structure: bytes, common: Any, rows: bytes) -> np.ndarray:
        self.pause_timer(False)
        return np.frombuffer(self.work(run, exchange, structure, common, rows), np.uint8)

    def place(self) -> tuple[str, int]:
        """Its node and process."""
        return _import_ray().get_runtime_context().get_node_id(), os.getpid()

    def late(self, deadline: float) -> bool:
        """Called while it works, in a thread of its own."""
        return self.timer.exceeds(deadline)


class Actors:
    """A `WorkerPool` of Ray actors."""

    def __init__(self, count: int, cores: int):
        self.ray = _import_ray()
        self.count, self.lock = count, threading.Lock()
        self.settings = settings(max(1, cores // count))
        errors = self.ray.exceptions
        self.deaths = (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError, errors.NodeDiedError)
        self.actors: list[Any] = [self._start_actor(1 if count <= cores else 0) for _ in range(count)]
        self.arrivals: list[Any] = [
            actor.place.remote() for actor in self.actors
        ]  # (node, process), once it has started
        self.started_at = [time.monotonic()] * count
        self.knows: list[set[int]] = [set() for _ in range(count)]  # runs whose code each has
        self.busy: dict[Any, int] = {}  # reference to the result -> worker
        self.check_at = [0.0] * count  # when to check each one's time
        self.common: tuple[bytes, Any] = b"", None
        self._await_room()

    def _start_actor(self, cores: int) -> Any:
        """An actor that reserves `cores`. A replacement reserves none, because the machine may be gone for good."""
        kind = self.ray.remote(concurrency_groups={CHECKS: 1})(Actor)
        return kind.options(num_cpus=cores, scheduling_strategy="SPREAD").remote(self.settings)

    def _await_room(self) -> None:
        ready, missing = self.ray.wait(self.arrivals, num_returns=self.count, timeout=PLACED)
        if missing:
            self.stop()
            raise RuntimeError(
                f"the Ray cluster had room for {len(ready)} of {self.count} workers within {PLACED:.0f} s; ask for fewer, "
                "or see with `ray status` what holds the cores"
            )

    def submit(self, worker: int, batch: WorkBatch) -> None:
        actor = self.actors[worker]
        if batch.run not in self.knows[worker]:
            actor.learn.remote(batch.run, batch.code)
            self.knows[worker].add(batch.run)
        result = actor.result.remote(
            batch.run, batch.exchange, batch.structure, self._put_once(batch.common), batch.rows
        )
        self.busy[result] = worker

    def _put_once(self, common: bytes) -> Any:
        """Copy data that all workers receive to each machine once, however many workers it has."""
        if len(common) < LARGE:
            return common
        if self.common[0] is not common:
            self.common = common, self.ray.put(np.frombuffer(common, np.uint8))
        return self.common[1]

    def wait(self, deadline: float | None) -> list[tuple[int, bytes | np.ndarray | FaultCode]]:
        while True:
            ready, _ = self.ray.wait(list(self.busy), num_returns=1, timeout=deadline and min(LOOK, deadline))
            if ready:
                return [self._take_result(ready[0])]
            if late := [result for result, worker in self.busy.items() if deadline and self._late(worker, deadline)]:
                return [self._give_up(result) for result in late]

    def _take_result(self, result: Any) -> tuple[int, np.ndarray | FaultCode]:
        worker = self.busy.pop(result)
        try:
            return worker, self.ray.get(result)
        except self.deaths:
            self._replace(worker)
            return worker, FaultCode.DIED

    def _give_up(self, result: Any) -> tuple[int, FaultCode]:
        worker = self.busy.pop(result)
        self._end_process(worker)
        self._replace(worker)
        return worker, FaultCode.LATE

    def _late(self, worker: int, deadline: float) -> bool:
        """Ask the actor; one that does not answer is late, unless it has not started yet."""
        now = time.monotonic()
        if now < self.check_at[worker]:
            return False
        self.check_at[worker] = now + min(LOOK, deadline)
        if self.ray.wait([self.arrivals[worker]], timeout=0)[1]:
            return now - self.started_at[worker] > COMPILING
        try:
            check = self.actors[worker].late.options(concurrency_group=CHECKS).remote(deadline)
            return bool(self.ray.get(check, timeout=SILENCE))
        except self.ray.exceptions.GetTimeoutError:
            return True
        except self.deaths:
            return False  # `wait` will notice

    def _replace(self, worker: int) -> None:
        self.ray.kill(self.actors[worker])
        self.actors[worker], self.knows[worker] = self._start_actor(0), set()
        self.arrivals[worker], self.started_at[worker] = self.actors[worker].place.remote(), time.monotonic()

    def _end_process(self, worker: int) -> None:
        """Ray asks an actor to end, which a stopped process does not notice; this kills the process."""
        if self.ray.wait([self.arrivals[worker]], timeout=0)[0]:
            node, process = self.ray.get(self.arrivals[worker])
            same_node = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            self.ray.remote(num_cpus=0, scheduling_strategy=same_node, max_retries=0)(_kill).remote(process)

    def abandon(self) -> None:
        for worker in self.busy.values():
            self._replace(worker)
        self.busy.clear()

    def forget(self, run: int) -> None:
        self.common = b"", None
        for actor, runs in zip(self.actors, self.knows, strict=True):
            if run in runs:
                actor.forget.remote(run)
                runs.discard(run)

    def stop(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


_pools: dict[tuple[str | None, int | None], Actors] = {}
_shutdowns: list[Callable[[], None]] = []  # one function per Ray that was started here


def _pool(address: str | None, workers: int | None) -> Actors:
    ray = _import_ray()
    if not ray.is_initialized():
        _pools.clear()  # it was shut down elsewhere
    if (address, workers) not in _pools:
        _connect(ray, address, workers)
        cores = int(ray.cluster_resources().get("CPU", 1))
        _pools[address, workers] = Actors(workers or cores, cores)
    return _pools[address, workers]


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import: Ray reads it there
    try:
        import ray
    except ImportError as error:
        raise ImportError("the ray engine needs Ray; install it with: pip install 'fedrl[ray]'") from error
    return ray


def _connect(ray: ModuleType, address: str | None, workers: int | None) -> None:
    """Join the cluster, or start a Ray here that is closed to others, unless this process already has one."""
    if ray.is_initialized():
        return
    local_ray = {"address": "local", "num_cpus": workers, "_node_ip_address": "127.0.0.1", "include_dashboard": False}
    with warnings.catch_warnings(), nullcontext() if address else loopback(ray):
        # Ray forks only to start programs of its own, which JAX cannot know
        warnings.filterwarnings("ignore", message="os.fork\\(\\) was called", category=RuntimeWarning)
        prepare_token(ray, joining=address is not None)
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **({"address": address} if address else local_ray))
        except (ConnectionError, ray.exceptions.AuthenticationError) as error:
            raise ConnectionError(f"{str(error).splitlines()[0]}; if it needs a token, {NEXT_MOVE}") from error
    _shutdowns.append(ray.shutdown)
