"""Language agents whose processes are killed at any instant and resumed end with the same bytes (about 90 s of CPU)."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.killed_runs import await_and_kill, newest_round, of_session

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'fedrl[llm]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedrl[llm]'")

from safetensors.numpy import load_file

from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments import experiment, orders, outcomes
from fedrl.recipes.fedagent import quickstart
from fedrl.records import folder, log

RECIPE = "fedagent/quickstart"
ARMS = (quickstart.FEDERATED, quickstart.ALONE)  # in this order
ROUNDS = 3
WORKERS = 2
TINY = {
    "products": 8, "demonstrations": 4, "width": 16, "clients": 4, "tasks_each": 5, "per_round": 2, "local_epochs": 1,
    "tasks": 2, "group": 2, "rounds": ROUNDS, "evaluate": 2, "eval_every": 2,
}  # fmt: skip
# The command line with a checkpoint after every round, which are a second or two each, and not every ten seconds.
SCRIPT = """
from functools import partial
from fedrl.cli import main
from fedrl.experiments import experiment
experiment.train = partial(experiment.train, checkpoint_seconds=0.0)
main()
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for workers in Linux's /proc")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of our own: the model is made in it once, by the undisturbed run."""
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def undisturbed(cache, tmp_path_factory) -> Path:
    order = orders.order(RECIPE, overrides=TINY, seeds=1)
    with folder.claim(tmp_path_factory.mktemp("runs") / "undisturbed", order.plain(), resume=False) as place:
        experiment.run(order, place, engine=one_at_a_time(), warn=pytest.fail)
    return place.path


@pytest.fixture
def start(undisturbed):
    """Starts the run in a folder, or goes on with it there. Whatever is left of it in the end is killed, one by one."""
    started = []
    new = [RECIPE, "--seeds", "1", *(word for key in TINY for word in ("--set", f"{key}={TINY[key]}"))]

    def process(place: Path) -> subprocess.Popen:
        words = ["--resume"] if (place / "run.toml").exists() else new
        words = [*words, "--out", str(place), "--engine", "processes", "--workers", str(WORKERS)]
        with place.with_suffix(".log").open("a") as out:
            command = [sys.executable, "-c", SCRIPT, "run", *words]
            started.append(subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True))
        return started[-1]

    yield process
    for one in started:
        kill(of_session(one.pid))
        one.wait()


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def nothing_left(process: subprocess.Popen) -> None:
    max_episode_steps = time.monotonic() + 60
    while left := of_session(process.pid):
        assert time.monotonic() < max_episode_steps, f"processes {left} outlive the one that was killed"
        time.sleep(0.05)


def rounds_done(place: Path) -> int:
    """Of all arms, as far as there are checkpoints."""
    return sum(max(0, newest_round(outcomes.arm_folder(place, arm))) for arm in ARMS)


def check_same(place: Path, undisturbed: Path) -> None:
    """Learnt parameters, returns and the last checkpoint's state to the byte; the log but for its times; the verdict."""
    for arm in ARMS:
        there, here = (outcomes.arm_folder(one, arm) for one in (place, undisturbed))
        for file in ("policy.safetensors", "returns.safetensors", f"checkpoint/round-{ROUNDS:06d}.safetensors"):
            assert (there / file).read_bytes() == (here / file).read_bytes(), (arm, file)
        rows = [[row | {"seconds": 0} for row in log.read(one / "log.jsonl")] for one in (there, here)]
        assert json.dumps(rows[0]) == json.dumps(rows[1])
        assert [row["round"] for row in rows[0]] == list(range(ROUNDS + 1))
    assert (place / "verdict.json").read_bytes() == (undisturbed / "verdict.json").read_bytes()
    assert not list(place.rglob(".*.tmp"))


def test_they_learn_something(undisturbed):
    """Or else there would be nothing to lose: each arm ends elsewhere than it began, and than the other."""
    order = orders.from_toml(undisturbed)
    first = quickstart.study.Study(order.config).spec.first()
    ends = [load_file(outcomes.arm_folder(undisturbed, arm) / "policy.safetensors") for arm in ARMS]
    for one, other in (
        (ends[0], ends[1]),
        *((end, {f"theta/{name}": first[name][None] for name in first}) for end in ends),
    ):
        assert set(one) == set(other)
        assert any(not np.array_equal(one[name], other[name]) for name in one)


def test_killed_at_random_instants(start, undisturbed, tmp_path):
    """While it opens models and workers, in the first arm, in the second."""
    chance = random.Random(os.getpid())  # other instants every time; the bytes must be the same at all of them
    place, crowds = tmp_path / "killed", []
    instants: list[tuple[Callable[[], bool], float]] = [
        ((place / "run.toml").exists, chance.uniform(0.0, 4.0)),
        (lambda: rounds_done(place) > before, chance.uniform(0.0, 0.5)),
        (lambda: rounds_done(place) > max(ROUNDS, before), chance.uniform(0.0, 0.5)),
    ]
    all_at_once = chance.randrange(len(instants))  # as when the power fails; else workers find out, and end

    def end(process: subprocess.Popen) -> None:
        crowds.append(of_session(process.pid))
        kill(crowds[-1] if len(crowds) - 1 == all_at_once else [process.pid])
        process.wait()

    for reached, delay in instants:
        process, before = start(place), rounds_done(place)
        assert await_and_kill(process, reached, delay=delay, end=end), place.with_suffix(".log").read_text()
        nothing_left(process)
    assert all(len(crowd) == 1 + WORKERS for crowd in crowds[1:])
    process = start(place)
    assert process.wait(180) == 0, place.with_suffix(".log").read_text()
    nothing_left(process)
    said = " ".join(place.with_suffix(".log").read_text().split())  # lines may have been broken anywhere
    assert said.count("checkpoint skipped") == said.count("it was never finished")
    check_same(place, undisturbed)
