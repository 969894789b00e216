"""Progress of a run: a live line on a terminal, a short line now and then elsewhere."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from fedrl.records.formatting import number, say, short
from fedrl.records.log import ArmCallback, Row

BLOCKS = "▁▂▃▄▅▆▇█"
RECENT = 10  # returns in the sparkline
PAUSE = 10.0  # seconds between plain lines


class Status(NamedTuple):
    """The progress of one arm."""

    which: str  # "2/3"
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


EMPTY = Status("", 0, 0, "", "", "", "")  # before there is anything to show


class Tracker:
    """Turns rows into a status, with the speed since the arm's first row: the time before that is compiling."""

    def __init__(self, arms: list[str], seeds: int, clock: Callable[[], float] = time.monotonic):
        self.arms, self.seeds, self.clock = arms, seeds, clock
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
            which=f"{self.arms.index(arm) + 1}/{len(self.arms)}",
            round=row["round"],
            rounds=rounds,
            result=f"return {number(self.returns[-1])}" if self.returns else "not evaluated yet",
            spark=sparkline(self.returns[-RECENT:]),
            speed=f"{short(steps / took)} steps/s" if took > 0 and steps else "",
            left=f"{clock_time((rounds - row['round']) * took / played)} left" if played else "",
        )

    def after(self, arm: str) -> str:
        """The line after `arm` is finished."""
        number = self.arms.index(arm) + 2
        last = number > len(self.arms)
        return "drawing …" if last else f"{number}/{len(self.arms)} {self.arms[number - 1]}: compiling …"


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
def shown(console: Console, arms: list[str], seeds: int) -> Iterator[ArmCallback]:
    """The `callback` for `experiment.run`."""
    tracker = Tracker(arms, seeds)
    with _live(console, tracker) if console.is_terminal else _lines(console, tracker) as callback:
        yield callback


@contextmanager
def _live(console: Console, tracker: Tracker) -> Iterator[ArmCallback]:
    fields = ("at", "result", "spark", "speed", "left")
    columns = [TextColumn(f"{{task.fields[status].{name}}}", markup=False) for name in fields]
    title = TextColumn("{task.description}", style="bold", markup=False)
    with Progress(title, BarColumn(bar_width=12), *columns, console=console, transient=True) as bars:
        task = bars.add_task("compiling …", total=None, status=EMPTY)

        def callback(arm: str, row: Row, rounds: int) -> None:
            status = tracker.status(arm, row, rounds)
            if status.done:
                say(console, f"{status.which} {arm}: {rounds} rounds, {status.result}")
                bars.reset(task, description=tracker.after(arm), total=None, status=EMPTY)
            else:
                bars.update(
                    task, description=f"{status.which} {arm}", total=rounds, completed=status.round, status=status
                )

        yield callback


@contextmanager
def _lines(console: Console, tracker: Tracker) -> Iterator[ArmCallback]:
    said_at: dict[str, float] = {}

    def callback(arm: str, row: Row, rounds: int) -> None:
        status = tracker.status(arm, row, rounds)
        if status.done or arm not in said_at or tracker.clock() - said_at[arm] >= PAUSE:
            said_at[arm] = tracker.clock()
            parts = (
                f"{status.which} {arm}: round {status.at}",
                status.result,
                status.speed,
                "" if status.done else status.left,
            )
            say(console, ", ".join(part for part in parts if part))
            console.file.flush()

    yield callback
