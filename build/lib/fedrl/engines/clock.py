"""How long one client's work has taken, compiling aside: what a deadline is compared with."""

import time

COMPILING = 300.0  # seconds that a worker may take to start, load a run's code or compile, before it counts as stopped


class Clock:
    """Held while a worker starts, loads code or compiles; going while it works."""

    def __init__(self) -> None:
        self.start(held=True)

    def start(self, *, held: bool) -> None:
        """New work begins."""
        self.held, self.since, self.worked = held, time.monotonic(), 0.0

    def turn(self, *, held: bool) -> None:
        now = time.monotonic()
        if not self.held:
            self.worked += now - self.since
        self.held, self.since = held, now

    def late(self, deadline: float | None) -> bool:
        if deadline is None:
            return False
        passed = time.monotonic() - self.since
        return passed > max(COMPILING, deadline) if self.held else self.worked + passed > deadline
