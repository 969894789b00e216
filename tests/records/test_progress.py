"""What a run shows while it goes."""

import io
import itertools
import os
import subprocess
import sys
import time
from functools import partial

import pytest
from rich.console import Console
from support.superlink import until

from fedrl.records import progress_display
from fedrl.records.progress import Tracker, sparkline


def test_progress_tells_speed_and_time_left():
    now = iter(range(0, 1000, 10))
    tracker = Tracker(["a", "b"], seeds=3, clock=lambda: next(now))
    first = {"round": 1, "env_steps": 100, "return": 1.0}
    assert tracker.status("b", first, 5).arm == "2/2 b"
    status = tracker.status("b", first | {"round": 3, "env_steps": 300, "return": 2.0}, 5)
    took = 20  # the clock is asked twice for the first row and once for the second
    assert (status.result, status.spark, status.at) == ("return 2.000", "▁█", "3/5")
    assert (status.speed, status.left) == (f"{3 * 200 / took:.0f} steps/s", "0:20 left")
    assert sparkline([float("nan"), 1.0, 1.0]) == " ▁▁"


def lines_of(tracker: Tracker, play) -> list[str]:
    file = io.StringIO()
    with progress_display.lines(Console(file=file, width=200), tracker) as callback:
        play(callback)
    return file.getvalue().splitlines()


def test_a_log_is_never_silent():
    """Something at once, signs of life while the first round is compiled, then a line a round."""

    def play(callback):
        time.sleep(0.35)
        for number in range(1, 4):
            callback("training", {"round": number, "env_steps": 10 * number, "return": 1.0}, 3)

    now = itertools.count(0.0, 1.5)
    tracker = Tracker(["training"], 1, clock=lambda: next(now))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress_display, "PAUSE", 0.1)
        said = lines_of(tracker, play)
    assert said[0] == "compiling (once), then the first evaluation …"
    waiting = [line for line in said if line.startswith("compiling (once), then the first evaluation … 0:")]
    assert waiting
    assert [line.split(",")[0] for line in said if "round" in line] == [f"training: round {i}/3" for i in (1, 2, 3)]
    assert said.index("compiling (once), then the first evaluation …") < said.index(waiting[-1]) < len(said) - 3


def test_the_next_arm_is_announced_at_once_and_names_are_shown_as_they_are():
    """Not ten seconds later; and ":b:" is no emoji."""
    row = {"round": 1, "env_steps": 1, "return": 1.0}
    said = lines_of(Tracker(["a:b", "[c]"], 1), lambda callback: [callback(arm, row, 1) for arm in ("a:b", "[c]")])
    assert said == [
        "1/2 a:b: compiling (once), then the first evaluation …", "1/2 a:b: round 1/1, return 1.000",
        "2/2 [c]: compiling (once), then the first evaluation …", "2/2 [c]: round 1/1, return 1.000",
    ]  # fmt: skip


def test_fast_rounds_do_not_flood_a_log():
    def play(callback):
        for number in range(1, 1001):
            callback("a", {"round": number, "env_steps": number}, 1000)

    said = lines_of(Tracker(["a", "b"], 1), play)
    assert said[0] == "1/2 a: compiling (once), then the first evaluation …"
    assert len(said) < 20
    assert "round 1/1000" in said[1]
    assert "round 1000/1000" in said[-2]


def test_train_says_something_within_five_seconds(tmp_path):
    """Measured from `train`, with nothing compiled before; a script whose stderr is a file."""
    script = tmp_path / "mine.py"
    script.write_text(
        "import time, sys, fedrl\n"
        "from fedrl import algorithms, environments\n"
        "worlds = environments.dense_mdps(3, 2, kappa=0.5)\n"
        "federation = fedrl.Federation(environments.finite_mdp(3, 2, 0.9), worlds, clients=2)\n"
        "method = algorithms.pavg(eta=0.1, local_steps=2, horizon=5)\n"
        "print('train', flush=True, file=sys.stderr)\n"
        "fedrl.train(method, federation, rounds=2)\n"
    )
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    with subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stderr.readline() == "train\n"
        began = time.monotonic()
        assert run.stderr.readline() == "compiling (once), then the first evaluation …\n"
        assert time.monotonic() - began < 5
        rest = run.stderr.read()
    assert "round 2/2" in rest


def test_what_is_waited_for_may_change_until_the_first_round():
    """In a terminal at once; in a log with the next sign of life."""
    waiting, file = ["a and b"], io.StringIO()
    tracker = Tracker(["training"], 1, waiting=lambda: f"waiting for {waiting[0]} …")
    with progress_display.bar(Console(file=file, force_terminal=True, width=100), tracker) as callback:
        for waiting[0] in ("a and b", "b"):
            until(partial(shows, file, len(file.getvalue()), f"waiting for {waiting[0]} …"), 10)
        callback("training", {"round": 1, "env_steps": 1, "return": 1.0}, 3)
        until(partial(shows, file, len(file.getvalue()), "training"), 10)
        until(partial(shows, file, len(file.getvalue()), "return 1.000"), 10)
    assert "waiting" not in file.getvalue().rpartition("return 1.000")[2]


def shows(file: io.StringIO, since: int, text: str) -> bool:
    return text in file.getvalue()[since:]
