"""Progress of a run: what there is to say after each row of the log. `progress_display.py` shows it."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from rich.console import Console

from fedrl.records.formatting import number, short
from fedrl.records.log import ArmCallback, Row, RowCallback

BLOCKS = "▁▂▃▄▅▆▇█"
RECENT = 10  # returns in the sparkline
PAUSE = 10.0  # seconds between signs of life while there is nothing new to say
COMPILING = "compiling (once), then the first evaluation …"


class Status(NamedTuple):
    """The progress of one arm."""

    arm: str  # "2/3 PAvg"; of a single arm, its name
    round: int
    rounds: int
    result: str  # the newest return
    spark: str
    speed: str
    left: str

    @property
    def done(self) -> bool:
        return self.round >= self.rounds

    @property
    def at(self) -> str:
        return f"{self.round}/{self.rounds}" if self.rounds else ""

    @property
    def sentence(self) -> str:
        parts = (f"round {self.at}", self.result, self.speed, "" if self.done else self.left)
        return ", ".join(part for part in parts if part)


EMPTY = Status("", 0, 0, "", "", "", "")  # before there is anything to show


class Tracker:
    """Turns rows into a status, with the speed since the arm's first row: the time before that is compiling."""

    def __init__(
        self,
        arms: list[str],
        seeds: int,
        clock: Callable[[], float] = time.monotonic,
        waiting: Callable[[], str] = lambda: COMPILING,
    ):
        self.arms, self.seeds, self.clock = arms, seeds, clock
        self.waiting = waiting  # for what, before the first row of an arm
        self.arm, self.since = "", 0.0
        self.returns: list[float] = []
        self.first: Row = {}

    def status(self, arm: str, row: Row, rounds: int) -> Status:
        if arm != self.arm:
            self.arm, self.returns, self.since, self.first = arm, [], self.clock(), row
        if "return" in row:
            self.returns.append(float(row["return"]))
        took, played = self.clock() - self.since, row["round"] - self.first["round"]
        steps = (row["env_steps"] - self.first["env_steps"]) * self.seeds
        return Status(
            arm=self._title(arm),
            round=row["round"],
            rounds=rounds,
            result=f"return {number(self.returns[-1])}" if self.returns else "not evaluated yet",
            spark=sparkline(self.returns[-RECENT:]),
            speed=f"{short(steps / took)} steps/s" if took > 0 and steps else "",
            left=f"{clock_time((rounds - row['round']) * took / played)} left" if played else "",
        )

    def before(self, arm: str) -> str:
        """The line before the first row of `arm`."""
        return f"{self._title(arm)}: {self.waiting()}" if len(self.arms) > 1 else self.waiting()

    def _title(self, arm: str) -> str:
        return f"{self.arms.index(arm) + 1}/{len(self.arms)} {arm}" if len(self.arms) > 1 else arm

    def after(self, arm: str) -> str:
        """The line after `arm` is finished."""
        number = self.arms.index(arm) + 1
        return "finishing …" if number == len(self.arms) else self.before(self.arms[number])


def sparkline(values: list[float]) -> str:
    """The values as blocks between the lowest and the highest; NaN leaves a gap."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, span = min(finite), max(finite) - min(finite)
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round(top * (v - low) / span) if span else 0] if math.isfinite(v) else " " for v in values)


def clock_time(seconds: float) -> str:
    hours, rest = divmod(math.ceil(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


@contextmanager
def shown(
    console: Console, arms: list[str], seeds: int, waiting: Callable[[], str] = lambda: COMPILING
) -> Iterator[ArmCallback]:
    """The `callback` for `experiment.run`: a bar in terminals and notebooks, otherwise a line a round.

    Something is shown at once, and until the first round: what `waiting` says, which is asked again and again.
    """
    from fedrl.records import progress_display

    tracker = Tracker(arms, seeds, waiting=waiting)
    if console.is_jupyter:
        display = progress_display.notebook(tracker)
    else:
        display = (progress_display.bar if console.is_terminal else progress_display.lines)(console, tracker)
    with display as callback:
        yield callback


@contextmanager
def of_one_run(callback: RowCallback | None, seeds: int) -> Iterator[RowCallback]:
    """`callback` itself; without one, a bar or lines on stderr."""
    if callback:
        yield callback
        return
    with shown(Console(stderr=True), ["training"], seeds) as show:
        yield partial(show, "training")
