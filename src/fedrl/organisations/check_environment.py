"""The first steps of a site's environment, taken in a process of their own: a user's code may hang or crash."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fedrl.organisations.check_items import Item, fail, skipped

PROGRAM = "fedrl.organisations.first_steps"
NAMES = METHOD, REFUSALS, IMPORT, SPACES, RESET, STEPS, CLIENTS = (
    "method", "refusals", "import", "spaces", "first reset", "first steps", "clients",
)  # fmt: skip
PATIENCE, LONGEST = 60.0, 600.0  # seconds for all of it, for each client of the site; and at most


def items(home: Path, patience: float = PATIENCE) -> Iterator[Item]:
    """One item for each of NAMES, in this order."""
    with tempfile.TemporaryDirectory() as scratch:
        out, errors = Path(scratch, "items"), Path(scratch, "stderr")
        out.touch()
        code = _run([sys.executable, "-P", "-m", PROGRAM, str(home.resolve()), str(out)], errors, patience)
        seen = [Item(**json.loads(line)) for line in out.read_text("utf-8").splitlines()]
        lines = [line.strip() for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    yield from seen
    if len(seen) < len(NAMES):
        yield _broken(NAMES[len(seen)], code, patience, lines[-1] if lines else "")
        yield from (skipped(name, "the process that tried it is gone") for name in NAMES[len(seen) + 1 :])


def _run(words: list[str], errors: Path, patience: float) -> int | None:
    """The exit code, or None if the time was up. Simulators that the process has started end with it."""
    with errors.open("wb") as err:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True
        )
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):  # the whole group has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _broken(name: str, code: int | None, patience: float, last: str) -> Item:
    said = f"; the last line on stderr is: {last:.300}" if last else ""
    if code is None:
        do = "find out what the environment waits for: a licence, a display, another program"
        return fail(name, f"not finished after {patience:g} s{said}", do)
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return fail(name, f"the process that tried it {how}{said}", "step the environment alone in Python, and correct it")
