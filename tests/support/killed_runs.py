"""Runs in processes of their own, for tests that kill them: how far one has come, and how it is ended."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def newest_round(folder: Path) -> int:
    """Of the newest finished checkpoint; -1 if there is none."""
    return max((int(file.stem.removeprefix("round-")) for file in folder.glob("checkpoint/*.json")), default=-1)


def await_and_kill(
    process: subprocess.Popen,
    reached: Callable[[], bool],
    *,
    delay: float,
    end: Callable[[subprocess.Popen], None] = subprocess.Popen.kill,
) -> bool:
    """Wait until it has `reached` something, then `delay` seconds, then `end` it. False if it was already done."""
    limit = time.monotonic() + 120
    while process.poll() is None and not reached() and time.monotonic() < limit:
        time.sleep(0.001)
    time.sleep(delay)
    alive = process.poll() is None
    end(process)
    return alive


def of_session(leader: int) -> list[int]:
    """The processes that a process started, and those that they did, as long as they run: the session that it leads."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session, *_ = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
            continue
        if int(session) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found
