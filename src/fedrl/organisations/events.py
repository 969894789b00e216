"""What the worker tells `join`: a line for each event, on a pipe that was its stdout.

What an environment prints goes to the log of the worker instead.
"""

import contextlib
import os
import sys
from collections.abc import Callable

Say = Callable[[str], None]
READY, OVER = "ready", "over"


def ignore(event: str) -> None:
    """For workers that nobody listens to."""


def channel() -> Say:
    """Keep the pipe for events, and send whatever else is written to stdout to stderr.

    An event is one line of printable characters, whoever's words are in it.
    """
    pipe = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdout.flush()
    os.dup2(2, 1)

    def say(event: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # nobody listens, as when a worker is started by hand
            print("".join(c if c.isprintable() else "?" for c in event), file=pipe)

    return say
