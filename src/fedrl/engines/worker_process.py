"""One worker process as the main process sees it: its current work, since when, and the two threads that talk to it.

Nothing in the main thread blocks on the process: one that is stopped in the middle of a message neither reads nor writes,
and only these two threads wait for it.
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

from fedrl.engines.work_batches import WorkBatch
from fedrl.engines.work_timer import WorkTimer
from fedrl.engines.worker import search_path

PATIENCE = 5.0  # seconds a worker has to close its simulators

WorkerMessage = tuple["WorkerProcess", bytes | None]  # its sender, and its bytes; None: the process has ended


class WorkerProcess:
    def __init__(self, settings: bytes, inbox: Queue[WorkerMessage]):
        self.ready = False  # has started
        self.batch: WorkBatch | None = None  # its current work
        self.knows: set[int] = set()  # runs whose code it has
        self.timer = WorkTimer()  # of its current work
        self.closing_since: float | None = None  # when it began to close the simulators of a run
        self.socket, self.process = _start()
        self.connection = Connection(os.dup(self.socket.fileno()))
        self.outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self.outbox.put(settings)
        self.threads = [
            threading.Thread(target=self._send, daemon=True),
            threading.Thread(target=self._listen, args=(inbox,), daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def alive(self) -> bool:
        return not self.connection.closed and self.process.poll() is None

    def begin(self, batch: WorkBatch) -> None:
        """Send the work, or keep it until the process has started."""
        self.batch = batch
        self.timer.start(paused=not self.ready or batch.run not in self.knows)
        if not self.ready:
            return
        if batch.run not in self.knows:
            self.send(["learn", batch.run], batch.code)
            self.knows.add(batch.run)
        self.send(["work", batch.run, batch.exchange], batch.structure, batch.common, batch.rows)

    def forget(self, run: int) -> None:
        """Drop the code of a run and close its simulators."""
        self.send(["forget", run])
        self.knows.discard(run)
        self.closing_since = self.closing_since or time.monotonic()

    def stuck_closing(self) -> bool:
        """Whether the `close` of a simulator hangs."""
        return self.closing_since is not None and time.monotonic() - self.closing_since > PATIENCE

    def send(self, command: list[str | int], *parts: bytes) -> None:
        for part in (json.dumps(command).encode(), *parts):
            self.outbox.put(part)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()
        self.outbox.put(None)
        for thread in self.threads:
            thread.join()
        self.connection.close()
        self.socket.close()

    def hang_up(self) -> None:
        """Wake the threads; messages that have arrived can still be read."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def _send(self) -> None:
        with suppress(OSError):  # the process died, which `_listen` reports
            while (part := self.outbox.get()) is not None:
                self.connection.send_bytes(part)

    def _listen(self, inbox: Queue[WorkerMessage]) -> None:
        with suppress(EOFError, OSError):
            while True:
                inbox.put((self, self.connection.recv_bytes()))
        inbox.put((self, None))


def _start() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A new interpreter instead of `multiprocessing`, which would import the user's script again, guard or no guard."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedrl.engines", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(search_path())},
            process_group=0,  # so that Ctrl-C reaches the main process only
        )
    return ours, process
