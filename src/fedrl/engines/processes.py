"""Clients' work on worker processes of this machine: for simulators, and for using all cores.

Workers are shared by all runs of this process that ask for the same number of them, and end with it, however it ends.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection

from fedrl.arguments import checked
from fedrl.engines import cache
from fedrl.engines.clock import Clock
from fedrl.engines.crew import crew
from fedrl.engines.driver import driven
from fedrl.engines.engine import Engine
from fedrl.engines.tasks import Task
from fedrl.engines.worker import GOING, HELD, READY, search_path, settings
from fedrl.faults import Why

FAILED_STARTS = 5  # in a row, and we stop trying
LOOK = 1.0  # seconds between looks at whether the processes live, should a connection not say so
PATIENCE = 5.0  # seconds a worker has to close its simulators when told to stop


@checked
def processes(workers: int | None = None) -> Engine:
    """`workers` long-lived processes, by default one a core; each keeps compiled programs and simulators."""
    count = os.cpu_count() or 1 if workers is None else workers
    if os.name != "posix":
        raise ValueError(f"processes wants Linux or macOS, this is {sys.platform}; use engine=one_at_a_time()")
    if count < 1:
        raise ValueError(f"processes wants at least one worker, got {workers}")
    cache.enable()
    return driven(lambda exchanges, faults: crew(_place(count), exchanges, faults))


def stop() -> None:
    """End all worker processes; the next run starts new ones."""
    while _places:
        _places.popitem()[1].stop()


class Processes:
    """A `Workplace` of processes, each at the other end of a socket."""

    def __init__(self, count: int):
        self.count, self.lock = count, threading.Lock()
        self.settings = json.dumps(settings(max(1, (os.cpu_count() or 1) // count))).encode()
        self.failed_starts = 0
        self.hands: list[_Hand] = [_start(self.settings) for _ in range(count)]

    def submit(self, worker: int, task: Task) -> None:
        if not self.hands[worker].alive():
            self._replace(worker)
        self.hands[worker].take(task)

    def wait(self, deadline: float | None) -> list[tuple[int, bytes | Why]]:
        answers: list[tuple[int, bytes | Why]] = []
        while not answers:
            busy = {i: hand for i, hand in enumerate(self.hands) if hand.task}
            speaking = connection.wait([hand.line for hand in busy.values()], min(LOOK, deadline or LOOK))
            for i, hand in busy.items():
                if hand.line in speaking or not hand.alive():
                    answers += self._hear(i, hand)
                elif hand.clock.late(deadline):
                    self._replace(i)
                    answers.append((i, Why.LATE))
        return answers

    def _hear(self, worker: int, hand: "_Hand") -> list[tuple[int, bytes | Why]]:
        """Its answer; nothing yet if it only says that it is ready or compiling; DIED if it died over its task."""
        task = hand.task
        assert task is not None
        try:
            word = hand.line.recv_bytes()
        except (EOFError, OSError):
            self._replace(worker)
            if hand.ready:
                return [(worker, Why.DIED)]
            self._count_failed_start(hand)
            self.hands[worker].take(task)
            return []
        if word in (HELD, GOING):
            hand.clock.turn(held=word == HELD)
            return []
        if hand.ready:
            hand.task = None
            return [(worker, word)]
        assert word == READY
        self.failed_starts = 0
        hand.ready = True
        hand.take(task)
        return []

    def _replace(self, worker: int) -> None:
        self.hands[worker].end()
        self.hands[worker] = _start(self.settings)

    def _count_failed_start(self, hand: "_Hand") -> None:
        self.failed_starts += 1
        if self.failed_starts >= FAILED_STARTS:
            self.failed_starts = 0
            raise RuntimeError(
                f"{FAILED_STARTS} worker processes in a row ended while starting, the last with exit code "
                f"{hand.process.returncode}; `{sys.executable} -c 'import fedrl.engines.worker'` may say why"
            )

    def abandon(self) -> None:
        for worker, hand in enumerate(self.hands):
            if hand.task:
                self._replace(worker)

    def forget(self, run: int) -> None:
        for hand in self.hands:
            if run in hand.knows:
                hand.say(["forget", run])
                hand.knows.discard(run)

    def stop(self) -> None:
        for hand in self.hands:
            hand.say(["stop"])
        for hand in self.hands:
            with suppress(subprocess.TimeoutExpired):
                hand.process.wait(PATIENCE if hand.ready and not hand.task else 0)
            hand.end()


class _Hand:
    """One process, and what we know of it."""

    def __init__(self, process: subprocess.Popen, line: Connection):
        self.process, self.line = process, line
        self.ready = False  # has reported for work
        self.task: Task | None = None
        self.knows: set[int] = set()  # runs whose code it has
        self.clock = Clock()  # of its task

    def alive(self) -> bool:
        return not self.line.closed and self.process.poll() is None

    def take(self, task: Task) -> None:
        """Begin the task, or keep it until the process has started."""
        self.task = task
        self.clock.start(held=not self.ready or task.run not in self.knows)
        if not self.ready:
            return
        if task.run not in self.knows:
            self.say(["learn", task.run], task.code)
            self.knows.add(task.run)
        self.say(["work", task.run, task.exchange], task.structure, task.common, task.rows)

    def say(self, command: list, *parts: bytes) -> None:
        with suppress(OSError):  # it died: whoever waits for its answer will find out
            for part in (json.dumps(command).encode(), *parts):
                self.line.send_bytes(part)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.line.close()


def _start(settings: bytes) -> _Hand:
    """A new interpreter rather than `multiprocessing`'s: that would import the user's script again, guard or no guard."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedrl.engines.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(search_path())},
            process_group=0,  # so that Ctrl-C reaches the main process only
        )
    hand = _Hand(process, Connection(ours.detach()))
    with suppress(OSError):
        hand.line.send_bytes(settings)
    return hand


_places: dict[int, Processes] = {}
atexit.register(stop)


def _place(count: int) -> Processes:
    if count not in _places:
        _places[count] = Processes(count)
    return _places[count]
