"""Clients' work on worker processes of this machine: for simulators, and for using all cores.

All runs of this process that ask for the same number of workers share them. Workers end with this process, however it ends.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from queue import Empty, Queue

from fedrl.arguments import checked
from fedrl.engines import cache
from fedrl.engines.driver import engine_of
from fedrl.engines.engine import Engine
from fedrl.engines.work_batches import WorkBatch
from fedrl.engines.worker import FORGOT, PAUSED, READY, RUNNING, settings
from fedrl.engines.worker_pool import worker_pool
from fedrl.engines.worker_process import PATIENCE, WorkerMessage, WorkerProcess
from fedrl.faults import FaultCode

FAILED_STARTS = 5  # consecutive failures after which we stop trying
LOOK = 1.0  # seconds between checks that the processes are alive, in case a connection does not say so


@checked
def processes(workers: int | None = None) -> Engine:
    """`workers` long-lived processes, by default one per core; each keeps compiled programs and simulators."""
    count = os.cpu_count() or 1 if workers is None else workers
    if os.name != "posix":
        raise ValueError(f"processes needs Linux or macOS, this is {sys.platform}; use engine=one_at_a_time()")
    if count < 1:
        raise ValueError(f"processes needs at least one worker, got {workers}")
    cache.enable()
    return engine_of(lambda *of_run: worker_pool(_pool(count), *of_run))


def stop() -> None:
    """End all worker processes; the next run starts new ones."""
    while _pools:
        _pools.popitem()[1].stop()


class Processes:
    """A `WorkerPool` of processes, each at the other end of a socket."""

    def __init__(self, count: int):
        self.count, self.lock = count, threading.Lock()
        self.settings = json.dumps(settings(max(1, (os.cpu_count() or 1) // count))).encode()
        self.failed_starts = 0
        self.inbox: Queue[WorkerMessage] = Queue()
        self.workers: list[WorkerProcess] = [WorkerProcess(self.settings, self.inbox) for _ in range(count)]

    def submit(self, worker: int, batch: WorkBatch) -> None:
        if not self.workers[worker].alive():
            self._replace(worker)
        self.workers[worker].begin(batch)

    def wait(self, deadline: float | None) -> list[tuple[int, bytes | FaultCode]]:
        results: list[tuple[int, bytes | FaultCode]] = []
        while not results:
            for process, message in self._messages(min(LOOK, deadline or LOOK)):
                if process in self.workers:  # not one that has been replaced
                    results += self._handle(self.workers.index(process), process, message)
            for worker, process in enumerate(self.workers):
                if process.stuck_closing():
                    batch = process.batch
                    self._replace(worker)
                    if batch:
                        self.workers[worker].begin(batch)
                elif process.batch and process.timer.exceeds(deadline):
                    self._replace(worker)
                    results.append((worker, FaultCode.LATE))
        return results

    def _messages(self, seconds: float) -> list[WorkerMessage]:
        """All messages that have arrived; waits up to so many seconds for the first."""
        messages = []
        with suppress(Empty):
            messages.append(self.inbox.get(timeout=seconds))
            while True:
                messages.append(self.inbox.get_nowait())
        for process in self.workers:
            if process.batch and not process.alive():
                process.hang_up()  # in case its connection is still open: its last messages and its end will arrive
        return messages

    def _handle(
        self, worker: int, process: WorkerProcess, message: bytes | None
    ) -> list[tuple[int, bytes | FaultCode]]:
        """Its result, or DIED if it died at work; nothing for messages about its own state."""
        batch = process.batch
        if message is None:
            self._replace(worker)
            if process.ready:
                return [(worker, FaultCode.DIED)] if batch else []
            self._count_failed_start(process)
            if batch:
                self.workers[worker].begin(batch)
        elif message == READY:
            self.failed_starts = 0
            process.ready = True
            if batch:
                process.begin(batch)
        elif message == FORGOT:
            process.closing_since = None
            if process.timer.paused:
                process.timer.start(paused=True)  # its time to load code begins now
        elif message in (PAUSED, RUNNING):
            process.timer.pause(message == PAUSED)
        else:
            process.batch = None
            return [(worker, message)]
        return []

    def _replace(self, worker: int) -> None:
        self.workers[worker].end()
        self.workers[worker] = WorkerProcess(self.settings, self.inbox)

    def _count_failed_start(self, process: WorkerProcess) -> None:
        self.failed_starts += 1
        if self.failed_starts >= FAILED_STARTS:
            self.failed_starts = 0
            raise RuntimeError(
                f"{FAILED_STARTS} worker processes in a row ended while starting, the last with exit code "
                f"{process.process.returncode}; `{sys.executable} -c 'import fedrl.engines.worker'` may say why"
            )

    def abandon(self) -> None:
        for worker, process in enumerate(self.workers):
            if process.batch:
                self._replace(worker)

    def forget(self, run: int) -> None:
        for process in self.workers:
            if run in process.knows:
                process.forget(run)

    def stop(self) -> None:
        for process in self.workers:
            process.send(["stop"])
        for process in self.workers:
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(PATIENCE if process.ready and not process.batch else 0)
            process.end()


_pools: dict[int, Processes] = {}
atexit.register(stop)


def _pool(count: int) -> Processes:
    if count not in _pools:
        _pools[count] = Processes(count)
    return _pools[count]
