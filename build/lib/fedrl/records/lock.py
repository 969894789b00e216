"""One writer at a time in a folder, on every system. The lock goes with its process, however that ends."""

import os
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

FILES = (".lock", ".owner")  # the lock, and the process that holds it: on Windows a locked file cannot be read


def hold(folder: Path) -> BaseFileLock | None:
    """The lock of `folder`, held until `release`; None if another run holds it, of this process or another."""
    lock = FileLock(folder / ".lock", thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def sign(folder: Path) -> None:
    """Say which process holds the lock, for whoever finds it taken."""
    (folder / ".owner").write_text(str(os.getpid()))


def owner(folder: Path) -> str:
    """The process that holds the lock, or "unknown" while it is about to sign."""
    try:
        return (folder / ".owner").read_text() or "unknown"
    except FileNotFoundError:
        return "unknown"
