"""Ctrl-C while modules are imported: compiled ones lose it, or turn it into an ImportError."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_afterwards() -> Iterator[None]:
    """A Ctrl-C in the block is a `KeyboardInterrupt` at its end."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and before is not signal.SIG_IGN:  # as of a shell's background jobs
        raise KeyboardInterrupt
