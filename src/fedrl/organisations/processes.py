"""The programs that `serve` and `join` start and watch over. Whatever happens to the parent, none of them outlives it.

Each leads a process group of its own, under `guard.py`: Ctrl-C reaches only the parent, which ends them in order.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from fedrl.organisations import guard

PATIENCE = 8.0  # seconds to end in after SIGTERM; then SIGKILL
PYTHON = (sys.executable, "-I", "-S")  # the guard imports nothing but the standard library
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LARGEST_LOG = 16 << 20  # bytes; at a start, a longer one is moved aside


class Child(NamedTuple):
    process: "subprocess.Popen[bytes]"
    log: Path
    begin: int  # where its own part of the log begins, in bytes

    def text(self) -> str:
        """What it has written to its log."""
        return self.log.read_bytes()[self.begin :].decode(errors="replace")

    def said(self) -> str:
        """The last line of it, for an error message."""
        lines = [line.strip() for line in COLOURS.sub("", self.text()).splitlines() if line.strip()]
        return lines[-1][-400:] if lines else "nothing"


class Children:
    """Programs by name. Use it in a `with` block, in the main thread: its end is theirs."""

    def __init__(self, home: Path, logs: Path):
        self.home, self.logs, self.children = home, logs, dict[str, Child]()

    def __enter__(self) -> "Children":
        self.logs.mkdir(mode=0o700, exist_ok=True)
        self.watcher = subprocess.Popen(
            [*PYTHON, guard.__file__, "watch"], stdin=subprocess.PIPE, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop(*reversed(self.children))
        finally:
            assert self.watcher.stdin is not None
            self.watcher.stdin.close()
            self.watcher.wait()

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], *, events: bool = False
    ) -> Child:
        """Start a program whose output goes to logs/NAME.log; with events=True, its stdout can be read instead."""
        path = self.logs / f"{name}.log"
        if path.exists() and path.stat().st_size > LARGEST_LOG:
            path.replace(path.with_suffix(".old.log"))
        with path.open("ab") as log:
            begin = log.tell()
            process = subprocess.Popen(
                [*PYTHON, guard.__file__, "run", str(os.getpid()), *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if events else log,
                stderr=log,
                cwd=self.home,
                process_group=0,
            )
        self.children[name] = Child(process, path, begin)
        self._tell(f"+{process.pid}")
        return self.children[name]

    def running(self, name: str) -> bool:
        return name in self.children and self.children[name].process.poll() is None

    def code(self, name: str) -> int | None:
        """The exit code of a program that has ended."""
        return self.children[name].process.poll()

    def stop(self, *names: str) -> None:
        """End these programs and all that they have started, in this order."""
        for name in names:
            child = self.children.pop(name, None)
            if child is None:
                continue
            _signal(child.process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(PATIENCE)
            _signal(child.process.pid, signal.SIGKILL)  # also what it has started
            child.process.wait()
            if child.process.stdout is not None:
                child.process.stdout.close()
            self._tell(f"-{child.process.pid}")

    def _tell(self, line: str) -> None:
        pipe: IO[bytes] | None = self.watcher.stdin
        assert pipe is not None
        with suppress(
            BrokenPipeError
        ):  # somebody has killed the watcher; the system still ends what we started ourselves
            pipe.write(f"{line}\n".encode())
            pipe.flush()


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does, with `KeyboardInterrupt`."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
