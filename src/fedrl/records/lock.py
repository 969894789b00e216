"""One writer at a time per folder, on every system. The lock is released when its process ends, however that happens."""

import os
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

FILES = (".lock", ".owner")  # the lock, and the process that holds it: on Windows a locked file cannot be read


def hold(folder: Path) -> BaseFileLock | None:
    """The lock of `folder`, held until `release`; None if another run holds it, in this process or another."""
    lock = FileLock(folder / ".lock", thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def sign(folder: Path) -> None:
    """Record which process holds the lock, for the error message of those who find it taken."""
    (folder / ".owner").write_text(str(os.getpid()))


def owner(folder: Path) -> str:
    """The process that holds the lock, or "unknown" until it has signed."""
    try:
        return (folder / ".owner").read_text() or "unknown"
    except FileNotFoundError:
        return "unknown"
