"""How a program of a site has ended, in words."""

import signal

from fedrl.organisations.processes import Child

MISTAKE = 2  # exit code of a worker whose error is a sentence
BEGINS = "fedrl: "  # how that sentence begins


def sentence(child: Child) -> str:
    """The whole sentence with which a worker has ended."""
    lines = [line for line in child.text().splitlines() if line.startswith(BEGINS)]
    return lines[-1].removeprefix(BEGINS) if lines else child.said()


def how_it_ended(child: Child) -> str:
    """Of a program that was killed, the last line of its log says nothing."""
    code = child.process.poll()
    if code is None or code >= 0:
        return f"ended with exit code {code} (the last line of its log: {child.said()})"
    return f"was killed by signal {-code}" + (" (by somebody, or because memory ran out)" * (-code == signal.SIGKILL))
