"""Two tiny programs by which nothing outlives `serve` and `join`, not even if they are killed.

    guard.py run PARENT COMMAND…   become COMMAND, which the system kills when PARENT ends
    guard.py watch                 take process groups on stdin, "+17" and "-17"; at its end kill those that are left

The first covers children, the second their children, too: Flower's node starts processes of its own, nginx has workers.
They are started by this file's path, so that nothing else is imported.
"""

import contextlib
import ctypes
import os
import signal
import sys
from typing import NoReturn

SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>


def run(parent: int, command: list[str]) -> NoReturn:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # it ended before the call above
        sys.exit(1)
    os.execvp(command[0], command)


def watch() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # whoever ends the parent ends this program too
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(int(sys.argv[2]), sys.argv[3:])
    watch()
