"""One worker process as the main process knows it: what it is doing, since when, and the two threads that talk with it.

Nothing here blocks on the process: one that is stopped in the middle of a message neither takes nor gives a byte, and only
a thread of its own waits for it.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import Queue, SimpleQueue

from fedrl.engines.clock import Clock
from fedrl.engines.tasks import Task
from fedrl.engines.worker import search_path

PATIENCE = 5.0  # seconds a worker has to close its simulators

Heard = tuple["WorkerProcess", bytes | None]  # who, and what it said; None: it is gone


class WorkerProcess:
    def __init__(self, settings: bytes, heard: Queue[Heard]):
        self.ready = False  # has reported for work
        self.task: Task | None = None
        self.knows: set[int] = set()  # runs whose code it has
        self.clock = Clock()  # of its task
        self.closing_since: float | None = None  # when it was told to close the simulators of a run
        self.socket, self.process = _start()
        self.line = Connection(os.dup(self.socket.fileno()))
        self.outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self.outbox.put(settings)
        self.threads = [
            threading.Thread(target=self._send, daemon=True),
            threading.Thread(target=self._listen, args=(heard,), daemon=True),
        ]
        for thread in self.threads:
            thread.start()

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

    def forget(self, run: int) -> None:
        """Let go of the code and the simulators of a run."""
        self.say(["forget", run])
        self.knows.discard(run)
        self.closing_since = self.closing_since or time.monotonic()

    def stuck_closing(self) -> bool:
        """Whether somebody's `close` hangs."""
        return self.closing_since is not None and time.monotonic() - self.closing_since > PATIENCE

    def say(self, command: list, *parts: bytes) -> None:
        for part in (json.dumps(command).encode(), *parts):
            self.outbox.put(part)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()
        self.outbox.put(None)
        for thread in self.threads:
            thread.join()
        self.line.close()
        self.socket.close()

    def hang_up(self) -> None:
        """Wake the threads; what has arrived can still be read."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def _send(self) -> None:
        with suppress(OSError):  # it died: whoever waits for its answer will find out
            while (part := self.outbox.get()) is not None:
                self.line.send_bytes(part)

    def _listen(self, heard: Queue[Heard]) -> None:
        with suppress(EOFError, OSError):
            while True:
                heard.put((self, self.line.recv_bytes()))
        heard.put((self, None))


def _start() -> tuple[socket.socket, subprocess.Popen]:
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
    return ours, process
