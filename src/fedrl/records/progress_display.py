"""The three places where progress is shown: a bar in a terminal, a bar in a notebook, lines in a log."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from html import escape

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from fedrl.records.formatting import say
from fedrl.records.log import ArmCallback, Row
from fedrl.records.progress import EMPTY, PAUSE, Tracker, clock_time

Words = Callable[[], str]
LINES_APART = 1.0  # seconds at least between two lines, for rounds that take less


class _Title(ProgressColumn):
    """The arm; before the first one, what is waited for."""

    def __init__(self, tracker: Tracker):
        super().__init__()
        self.tracker = tracker

    def render(self, task: Task) -> Text:
        return Text(task.description or self.tracker.before(self.tracker.arms[0]), style="bold")


class _Waiting(ProgressColumn):
    """The time since waiting began; nothing once rounds are played."""

    def render(self, task: Task) -> Text:
        return Text(clock_time(task.elapsed or 0.0) if task.total is None else "")


@contextmanager
def bar(console: Console, tracker: Tracker) -> Iterator[ArmCallback]:
    """A bar that disappears; each finished arm leaves a line."""
    fields = ("at", "result", "spark", "speed", "left")
    columns = [TextColumn(f"{{task.fields[status].{name}}}", markup=False) for name in fields]
    with Progress(
        _Title(tracker), BarColumn(bar_width=12), _Waiting(), *columns, console=console, transient=True
    ) as bars:
        task = bars.add_task("", total=None, status=EMPTY)

        def callback(arm: str, row: Row, rounds: int) -> None:
            status = tracker.status(arm, row, rounds)
            if status.done:
                say(console, f"{status.arm}: {rounds} rounds, {status.result}")
                bars.reset(task, description=tracker.after(arm), total=None, status=EMPTY)
            else:
                bars.update(task, description=status.arm, total=rounds, completed=status.round, status=status)

        yield callback


@contextmanager
def lines(console: Console, tracker: Tracker) -> Iterator[ArmCallback]:
    """A line for each row that is shown, at most one per second, and signs of life before the first."""
    said_at: dict[str, float] = {}

    def tell(text: str) -> None:
        say(console, text)
        console.file.flush()

    with _signs_of_life(tracker, tell, PAUSE) as wait:

        def callback(arm: str, row: Row, rounds: int) -> None:
            status, now = tracker.status(arm, row, rounds), tracker.clock()
            if status.done or arm not in said_at or now - said_at[arm] >= LINES_APART:
                said_at[arm] = now
                tell(f"{status.arm}: {status.sentence}")
            if status.done and arm != tracker.arms[-1]:
                tell(tracker.after(arm))
            wait(partial(tracker.after, arm) if status.done else None)

        yield callback


@contextmanager
def notebook(tracker: Tracker) -> Iterator[ArmCallback]:
    """A bar in the cell's output. It needs no widgets, so it is also there when the notebook is opened next week."""
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)

    def show(text: str, share: float | None = None) -> None:
        value = "" if share is None else f' value="{share:.3f}"'
        handle.update(HTML(f"<progress{value}></progress> {escape(text)}"))

    with _signs_of_life(tracker, show, 1.0) as wait:

        def callback(arm: str, row: Row, rounds: int) -> None:
            status = tracker.status(arm, row, rounds)
            show(f"{status.arm}: {status.sentence}", status.round / rounds)
            wait(partial(tracker.after, arm) if status.done and arm != tracker.arms[-1] else None)

        yield callback


@contextmanager
def _signs_of_life(
    tracker: Tracker, tell: Callable[[str], None], pause: float
) -> Iterator[Callable[[Words | None], None]]:
    """Repeats what the run is waiting for, with the time it has taken; `wait(None)`: for nothing any more."""
    over, lock = threading.Event(), threading.Lock()
    waiting: Words | None = partial(tracker.before, tracker.arms[0])
    since = tracker.clock()

    def wait(words: Words | None) -> None:
        nonlocal waiting, since
        with lock:
            waiting, since = words, tracker.clock()

    def repeat() -> None:
        while not over.wait(pause):
            with lock:
                if waiting:
                    tell(f"{waiting()} {clock_time(tracker.clock() - since)}")

    tell(tracker.before(tracker.arms[0]))
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield wait
    finally:
        over.set()
        thread.join()
