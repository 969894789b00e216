"""Clients' work on worker processes of this machine: for simulators, and for using all cores.

Workers are shared by all runs of this process that ask for the same number of them, and end with it, however it ends.
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
from fedrl.engines.driver import driven
from fedrl.engines.engine import Engine
from fedrl.engines.tasks import Task
from fedrl.engines.worker import FORGOT, GOING, HELD, READY, settings
from fedrl.engines.worker_pool import worker_pool
from fedrl.engines.worker_process import PATIENCE, Heard, WorkerProcess
from fedrl.faults import FaultCode

FAILED_STARTS = 5  # in a row, and we stop trying
LOOK = 1.0  # seconds between looks at whether the processes live, should a connection not say so


@checked
def processes(workers: int | None = None) -> Engine:
    """`workers` long-lived processes, by default one a core; each keeps compiled programs and simulators."""
    count = os.cpu_count() or 1 if workers is None else workers
    if os.name != "posix":
        raise ValueError(f"processes wants Linux or macOS, this is {sys.platform}; use engine=one_at_a_time()")
    if count < 1:
        raise ValueError(f"processes wants at least one worker, got {workers}")
    cache.enable()
    return driven(lambda *of_run: worker_pool(_pool(count), *of_run))


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
        self.heard: Queue[Heard] = Queue()
        self.workers: list[WorkerProcess] = [WorkerProcess(self.settings, self.heard) for _ in range(count)]

    def submit(self, worker: int, task: Task) -> None:
        if not self.workers[worker].alive():
            self._replace(worker)
        self.workers[worker].take(task)

    def wait(self, deadline: float | None) -> list[tuple[int, bytes | FaultCode]]:
        answers: list[tuple[int, bytes | FaultCode]] = []
        while not answers:
            for process, word in self._words(min(LOOK, deadline or LOOK)):
                if process in self.workers:  # not one that has been replaced
                    answers += self._hear(self.workers.index(process), process, word)
            for worker, process in enumerate(self.workers):
                if process.stuck_closing():
                    task = process.task
                    self._replace(worker)
                    if task:
                        self.workers[worker].take(task)
                elif process.task and process.clock.late(deadline):
                    self._replace(worker)
                    answers.append((worker, FaultCode.LATE))
        return answers

    def _words(self, seconds: float) -> list[Heard]:
        """What workers have said, after waiting for something for so long."""
        words = []
        with suppress(Empty):
            words.append(self.heard.get(timeout=seconds))
            while True:
                words.append(self.heard.get_nowait())
        for process in self.workers:
            if process.task and not process.alive():
                process.hang_up()  # should its connection not say so: its last words and its end will be heard
        return words

    def _hear(self, worker: int, process: WorkerProcess, word: bytes | None) -> list[tuple[int, bytes | FaultCode]]:
        """Its answer; nothing yet if it only says that it is ready or compiling; DIED if it died over its task."""
        task = process.task
        if word is None:
            self._replace(worker)
            if process.ready:
                return [(worker, FaultCode.DIED)] if task else []
            self._count_failed_start(process)
            if task:
                self.workers[worker].take(task)
        elif word == READY:
            self.failed_starts = 0
            process.ready = True
            if task:
                process.take(task)
        elif word == FORGOT:
            process.closing_since = None
            if process.clock.held:
                process.clock.start(held=True)  # its time to load code begins now
        elif word in (HELD, GOING):
            process.clock.turn(held=word == HELD)
        else:
            process.task = None
            return [(worker, word)]
        return []

    def _replace(self, worker: int) -> None:
        self.workers[worker].end()
        self.workers[worker] = WorkerProcess(self.settings, self.heard)

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
            if process.task:
                self._replace(worker)

    def forget(self, run: int) -> None:
        for process in self.workers:
            if run in process.knows:
                process.forget(run)

    def stop(self) -> None:
        for process in self.workers:
            process.say(["stop"])
        for process in self.workers:
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(PATIENCE if process.ready and not process.task else 0)
            process.end()


_pools: dict[int, Processes] = {}
atexit.register(stop)


def _pool(count: int) -> Processes:
    if count not in _pools:
        _pools[count] = Processes(count)
    return _pools[count]
