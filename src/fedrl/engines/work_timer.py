"""How long one client's work has taken, without compiling: this is what a deadline limits."""

import time

COMPILING = 300.0  # seconds that a worker may take to start, load a run's code or compile, before it counts as hung


class WorkTimer:
    """Paused while a worker starts, loads code or compiles; running while it works."""

    def __init__(self) -> None:
        self.start(paused=True)

    def start(self, *, paused: bool) -> None:
        """New work begins."""
        self.paused, self.since, self.worked = paused, time.monotonic(), 0.0

    def pause(self, paused: bool) -> None:
        """Pause, or go on."""
        now = time.monotonic()
        if not self.paused:
            self.worked += now - self.since
        self.paused, self.since = paused, now

    def exceeds(self, deadline: float | None) -> bool:
        if deadline is None:
            return False
        elapsed = time.monotonic() - self.since
        return elapsed > max(COMPILING, deadline) if self.paused else self.worked + elapsed > deadline
