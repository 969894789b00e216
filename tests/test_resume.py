"""A run killed at any instant and resumed ends with the same bytes as one that never stopped."""

import os
import random
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from support.killed_runs import await_and_kill, newest_round

from fedrl.records import log

ROUNDS = 180
KILLS = 14
# One round per block and a checkpoint after each: most of the time goes into what a kill could spoil.
SCRIPT = f"""
import sys
import fedrl
from fedrl.algorithms.fedavg import pavg
from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite, random_mdp

def engine(*arguments):
    return fused()(*arguments)._replace(most=1)

federation = fedrl.Federation(finite.environment(3, 2, 0.9), random_mdp.dense(3, 2, 0.5), clients=3)
method = pavg(eta=0.1, local_steps=2, horizon=5)
fedrl.train(method, federation, rounds={ROUNDS}, seeds=2, eval_every=7, engine=engine,
            out=sys.argv[1], checkpoint_seconds=0.0)
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts the run in a folder. All processes share a compilation cache, so that a restart costs little."""
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "cache")}

    def process(folder: Path) -> subprocess.Popen:
        command = [sys.executable, "-c", SCRIPT, str(folder)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return process


@pytest.fixture(scope="module")
def undisturbed(start, tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    complete(start, folder)
    return results(folder)


def complete(start, folder: Path) -> str:
    """Let the run go to its end; what it printed."""
    with start(folder) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def results(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes() for name in ("policy.safetensors", "returns.safetensors", "best.safetensors")
    }


def check_log(folder: Path) -> None:
    """Each round once, in order; measured at the start, every seventh round and at the end; costs only grow."""
    rows = log.read(folder / "log.jsonl")
    assert [row["round"] for row in rows] == list(range(ROUNDS + 1))
    assert [row["round"] for row in rows if "return" in row] == [*range(0, ROUNDS, 7), ROUNDS]
    steps = [row["env_steps"] for row in rows]
    assert {b - a for a, b in pairwise(steps)} == {steps[1]}
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


def kill(process: subprocess.Popen, folder: Path, *, rounds: int, delay: float) -> bool:
    """Wait until it has got `rounds` rounds further, then `delay` seconds, then kill it. False if it was already done."""
    goal = newest_round(folder) + rounds
    return await_and_kill(process, lambda: newest_round(folder) >= goal, delay=delay)


def test_killed_at_random_instants(start, undisturbed, tmp_path):
    chance = random.Random(os.getpid())  # other instants every time; the bytes must be the same at all of them
    folder, kills = tmp_path / "killed", 0
    for attempt in range(KILLS):
        early = attempt % 5 == 0  # while it starts up, or reads what the one before has left
        with start(folder) as process:
            wait = chance.uniform(0.0, 2.0 if early else 0.03)
            kills += kill(process, folder, rounds=0 if early else chance.randint(1, 12), delay=wait)
    said = complete(start, folder)
    assert kills >= KILLS - 2, f"only {kills} kills hit a living process; raise ROUNDS"
    skipped = [line for line in said.splitlines() if line.startswith("checkpoint skipped")]
    assert all("it was never finished" in line for line in skipped)  # a kill leaves litter, never a false checkpoint
    assert results(folder) == undisturbed
    check_log(folder)
    assert not list(folder.rglob(".*.tmp"))

    complete(start, folder)  # to resume a finished run changes nothing
    assert results(folder) == undisturbed
    check_log(folder)


@pytest.fixture(scope="module")
def halfway(start, tmp_path_factory) -> Path:
    """A killed run, to be copied."""
    folder = tmp_path_factory.mktemp("halfway")
    with start(folder) as process:
        assert kill(process, folder, rounds=ROUNDS // 2, delay=0.0)
    return folder


def checkpoints(folder: Path) -> list[Path]:
    """Of the whole checkpoints, the data; oldest first. Mostly two, but three if the kill came before the clearing away."""
    return sorted(file.with_suffix(".safetensors") for file in folder.glob("checkpoint/*.json"))


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    place = len(data) - 9
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(("damage", "suffix"), [(cut, ".safetensors"), (flip, ".safetensors"), (flip, ".json")])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    start, undisturbed, halfway, tmp_path, damage, suffix
):
    folder = Path(shutil.copytree(halfway, tmp_path / "damaged"))
    before, newest = checkpoints(folder)[-2:]
    victim = newest.with_suffix(suffix)
    victim.write_bytes(damage(victim.read_bytes()))
    said = complete(start, folder)
    assert f"checkpoint skipped: {victim.name}: " in said
    assert f"continuing from round {int(before.stem.removeprefix('round-'))}\n" in said
    assert results(folder) == undisturbed
    check_log(folder)


def test_all_checkpoints_damaged_means_from_the_start(start, undisturbed, halfway, tmp_path):
    folder = Path(shutil.copytree(halfway, tmp_path / "damaged"))
    found = checkpoints(folder)
    for file in found:
        file.write_bytes(flip(file.read_bytes()))
    assert complete(start, folder).count("; continuing from the start\n") >= len(found)
    assert results(folder) == undisturbed
    check_log(folder)
