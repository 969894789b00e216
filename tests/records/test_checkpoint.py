"""A checkpoint is whole or not there: damaged at any byte, killed at any instant."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.server_trees import LIKE, same, server

from fedrl.records import checkpoint

# --- damage ---


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("two") / "checkpoint"
    for round in (1, 2):
        checkpoint.save(folder, server(round), round=round, log_bytes=100 * round)
    return folder


def found_after(two: Path, damage) -> tuple:
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(two, Path(scratch) / "checkpoint")
        damage(folder)
        return checkpoint.newest(folder, LIKE)


def test_the_newest_is_found(two):
    found, damaged = checkpoint.newest(two, server(0))
    assert found is not None
    assert same(found.state, server(2))
    assert (found.round, found.log_bytes, damaged) == (2, 200, [])


def test_a_folder_without_checkpoints(tmp_path):
    assert checkpoint.newest(tmp_path, server(0)) == (None, [])
    assert checkpoint.newest(tmp_path / "missing", server(0)) == (None, [])


@settings(max_examples=250, deadline=None)
@given(
    suffix=st.sampled_from(["safetensors", "json"]), place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255)
)
def test_any_altered_byte_is_noticed(two, suffix, place, flip):
    def damage(folder: Path) -> None:
        file = folder / f"round-000002.{suffix}"
        data = bytearray(file.read_bytes())
        data[int(place * len(data))] ^= flip
        file.write_bytes(data)

    found, damaged = found_after(two, damage)
    assert found is not None
    assert (found.round, found.log_bytes) == (1, 100)
    assert same(found.state, server(1))
    assert len(damaged) == 1
    assert damaged[0].startswith(f"round-000002.{suffix}: ")


@pytest.mark.parametrize("suffix", ["safetensors", "json"])
def test_every_truncation_is_noticed(two, suffix):
    size = (two / f"round-000002.{suffix}").stat().st_size
    for length in range(size):
        found, damaged = found_after(two, lambda folder, n=length: os.truncate(folder / f"round-000002.{suffix}", n))
        assert found is not None, length
        assert found.round == 1, length
        assert damaged[0].startswith(f"round-000002.{suffix}: "), length


def test_the_reason_is_named(two):
    def flip_last(folder: Path) -> None:
        file = folder / "round-000002.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"\xff")

    assert found_after(two, flip_last)[1] == ["round-000002.safetensors: sha256 differs"]
    assert found_after(two, lambda folder: (folder / "round-000002.json").unlink())[1] == [
        "round-000002.safetensors: no round-000002.json beside it, it was never finished"
    ]
    assert found_after(two, lambda folder: (folder / "round-000002.safetensors").unlink())[1] == [
        "round-000002.safetensors: cannot be read (No such file or directory)"
    ]


def test_a_sidecar_of_another_round_does_not_count(two):
    def swap(folder: Path) -> None:
        for suffix in ("json", "safetensors"):
            shutil.copy(folder / f"round-000001.{suffix}", folder / f"round-000002.{suffix}")

    found, damaged = found_after(two, swap)
    assert found is not None
    assert found.round == 1
    assert damaged == ["round-000002.json: its checksum differs"]


def test_when_all_are_damaged_all_are_named(two):
    found, damaged = found_after(two, lambda folder: [os.truncate(file, 5) for file in folder.iterdir()])
    assert found is None
    assert damaged == ["round-000002.json: truncated or altered", "round-000001.json: truncated or altered"]


def test_a_whole_checkpoint_of_another_program_is_an_error_not_damage(two):
    with pytest.raises(ValueError, match=r"round-000002\.safetensors does not hold the expected tree"):
        checkpoint.newest(two, {"theta": jnp.zeros(3)})


# --- what is kept ---


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def both(*rounds: int) -> list[str]:
    return sorted(f"round-{round:06d}.{suffix}" for round in rounds for suffix in ("json", "safetensors"))


def test_only_the_last_few_are_kept_in_numerical_order(tmp_path):
    for round in (8, 999_999, 1_000_000, 1_000_001):
        checkpoint.save(tmp_path, {"x": round}, round=round, log_bytes=0, keep=2)
    assert names(tmp_path) == both(1_000_000, 1_000_001)
    assert checkpoint.newest(tmp_path, {"x": 0})[0] == ({"x": 1_000_001}, 1_000_001, 0)


def test_litter_neither_counts_nor_stays(tmp_path):
    for round in (1, 2, 3):
        checkpoint.save(tmp_path, {"x": round}, round=round, log_bytes=0, keep=3)
    (tmp_path / "round-000003.json").unlink()
    checkpoint.save(tmp_path, {"x": 4}, round=4, log_bytes=0, keep=2)
    assert names(tmp_path) == both(2, 4)


def test_rounds_of_a_history_given_up_are_removed(tmp_path):
    for round in (1, 5, 9):
        checkpoint.save(tmp_path, {"x": round}, round=round, log_bytes=0, keep=3)
    checkpoint.save(tmp_path, {"x": 6}, round=6, log_bytes=0, keep=3)
    assert names(tmp_path) == both(1, 5, 6)


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"round": -1}, {"log_bytes": -1}])
def test_senseless_settings_are_refused_before_anything_is_written(tmp_path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        checkpoint.save(tmp_path / "checkpoint", {"x": 1}, **({"round": 1, "log_bytes": 0} | wrong))
    assert not (tmp_path / "checkpoint").exists()


# --- SIGKILL ---

# One process pays for the imports and forks a writer per trial, so that a trial takes milliseconds.
NURSERY = """
import os, sys
import jax, numpy as np
from fedrl.records import checkpoint
from fedrl.records.tensors import write_atomically
folder, acknowledged, single, nursery = *sys.argv[1:], os.getpid()
for line in sys.stdin:
    first = int(line)
    pid = os.fork()
    if pid == 0:
        out = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for round in range(first, first + 3000):
            state = {"theta": np.full(50_000, round, np.float32), "round": round}
            checkpoint.save(folder, state, round=round, log_bytes=10 * round)
            os.write(out, b"%d\\n" % round)
            write_atomically(single, b"%d" % (round % 10) * 1_000_000)
            if os.getppid() != nursery:
                break
        os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("dead", flush=True)
"""


def promised(acknowledged: Path) -> int:
    """The last round whose `save` is known to have returned."""
    lines = acknowledged.read_text().split() if acknowledged.exists() else []
    return int(lines[-1]) if lines else 0


def test_a_writer_killed_at_any_instant_never_loses_a_checkpoint(tmp_path):
    folder, acknowledged, single = tmp_path / "checkpoint", tmp_path / "acknowledged", tmp_path / "single"
    like, last, interrupted, delays = {"theta": np.zeros(50_000, np.float32), "round": 0}, 0, 0, random.Random(0)
    command = [sys.executable, "-W", "ignore", "-c", NURSERY, str(folder), str(acknowledged), str(single)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for trial in range(60):
            print(last + 1, file=nursery.stdin, flush=True)
            pid = int(nursery.stdout.readline())
            deadline = time.monotonic() + 20  # on a busy machine a writer may take long to get going
            while trial % 4 and promised(acknowledged) <= last and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(delays.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            assert nursery.stdout.readline() == "dead\n"
            least = max(promised(acknowledged), last)
            found, damaged = checkpoint.newest(folder, like)
            round = found.round if found else 0
            assert round in (least, least + 1)
            if found:
                np.testing.assert_array_equal(found.state["theta"], np.full(50_000, round, np.float32))
                assert (found.state["round"], found.log_bytes) == (round, 10 * round)
            assert all(f"round-{round + 1:06d}.safetensors: no " in reason for reason in damaged)
            if single.exists():  # overwritten again and again: the old bytes or the new ones, never some of each
                text = single.read_bytes()
                assert text == text[:1] * 1_000_000
            interrupted += not folder.exists() or names(folder) != both(*[r for r in (round - 1, round) if r > 0])
            last = round
        nursery.stdin.close()
    assert last > 30  # the writers did get somewhere
    assert interrupted > 5  # and were hit in the middle of a save
