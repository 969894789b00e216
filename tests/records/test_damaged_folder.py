"""A folder with files lost, altered or half-extended: one sentence, and not a byte is changed."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.small_runs import as_of_an_earlier_version, refused, train

import fedrl
from fedrl.records import log
from fedrl.records.folder import claim


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A finished run that nothing below may change."""
    place = tmp_path_factory.mktemp("begun") / "run"
    train(place)
    return place


@pytest.fixture
def again(begun, tmp_path) -> Path:
    """A copy of it, to go on with."""
    return Path(shutil.copytree(begun, tmp_path / "again"))


BAD_SEEDS = ["", "{", "[]", "3", '{"first": 0}', '{"first": null, "count": 1}', "\0\0", '{"first": 0, "count": 1e400}']
BAD_SEEDS += ['{"first": Infinity, "count": 1}', '{"first": 0.9, "count": 1.5}', '{"first": true, "count": "1"}']


@pytest.mark.parametrize("text", BAD_SEEDS)
def test_damaged_seeds(again, text):
    as_of_an_earlier_version(again, text)
    assert "seeds.json is damaged" in refused(again)


@pytest.mark.parametrize("keep_checkpoints", [True, False])
def test_a_log_of_garbage_stops_the_run(again, keep_checkpoints):
    file = again / "log.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"x" * (len(lines[0]) - 1) + b"\n" + b"".join(lines[1:]))
    if not keep_checkpoints:
        for data in (again / "checkpoint").iterdir():
            data.unlink()
    assert "log.jsonl, line 1: expected one JSON object, a round's row, got b'xxxx" in refused(again, rounds=3)


def damage(folder: Path, what: str) -> None:
    """One of the ways in which files are lost, or are not what their names say."""
    name = what.split()[0]
    if name == "checkpoint":
        shutil.rmtree(folder / name)
    else:
        (folder / name).unlink()
    if what.endswith("a file"):
        (folder / name).write_text("x")
    if what.endswith("a folder"):
        (folder / name).mkdir()
    if what.endswith("empty"):
        (folder / name).write_bytes(b"")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "checkpoint gone",
            "holds a finished policy but no whole checkpoint to continue from; restore its checkpoint folder",
        ),
        ("checkpoint a file", "checkpoint is a file, expected a folder; move it away or give another out"),
        ("log.jsonl gone", "log.jsonl is missing, and the checkpoint continues from round 2; restore the whole log"),
        ("log.jsonl empty", "log.jsonl is empty, and the checkpoint continues from round 2; restore the whole log"),
        ("log.jsonl a folder", "log.jsonl is a folder, expected a file of the run; move it away or give another out"),
        ("policy.safetensors a folder", "policy.safetensors is a folder, expected a file of the run"),
    ],
)
def test_lost_files_stop_a_run_before_anything_is_overwritten(again, what, said):
    damage(again, what)
    assert said in refused(again, rounds=3)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b"{}", "log.jsonl, line 3: expected one JSON object, a round's row, got b'{}"),
        (b'{"round": 1}', "log.jsonl ends with round 1, and the checkpoint continues from round 2"),
        (b'{"round": 2}', "log.jsonl: the row of round 2 has seconds None, expected a number; restore the whole log"),
    ],
)
def test_a_last_row_that_is_none(again, row, said):
    file = again / "log.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + row + b" " * (len(lines[2]) - len(row) - 1) + b"\n")
    assert said in refused(again, rounds=3)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("log.jsonl gone", "is not a whole finished run"),
        ("log.jsonl empty", "log.jsonl is empty; repeat the run or use another copy"),
        ("returns.safetensors gone", "is not a whole finished run"),
        ("returns.safetensors a folder", "is not a whole finished run"),
        ("policy.safetensors a folder", "policy.safetensors"),
        ("policy.safetensors empty", "is not a whole safetensors file"),
    ],
)
def test_lost_files_when_a_run_is_loaded(again, what, said):
    damage(again, what)
    with pytest.raises(ValueError, match=said) as caught:
        fedrl.load(again)
    assert "\n" not in str(caught.value)


def test_a_finished_run_that_went_on_and_was_interrupted(again):
    """What is loaded is of one round, and says so; going on finishes it."""
    before = fedrl.load(again)
    assert before.saved.header["rounds"] == before.rows[-1]["round"] == 2

    def stop(row, rounds):
        if row["round"] >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(again, rounds=900, callback=stop)
    assert log.read(again / "log.jsonl")[-1]["round"] >= 4
    with pytest.warns(
        UserWarning, match=r"holds the policy of round 2; the run continued to round \d+ and was interrupted"
    ):
        found = fedrl.load(again)
    assert found.rows == before.rows
    np.testing.assert_array_equal(found.returns, before.returns)
    rounds = log.read(again / "log.jsonl")[-1]["round"]
    old = (again / "returns.safetensors").read_bytes()
    train(again, rounds=rounds)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fedrl.load(again).rows[-1]["round"] == rounds
    (again / "returns.safetensors").write_bytes(old)  # as if it had been killed between the two files
    with pytest.raises(ValueError, match=f"holds the policy of round {rounds} and the returns of round 2"):
        fedrl.load(again)


def test_recipes_are_loaded_arm_by_arm(begun, tmp_path):
    place = tmp_path / "recipe"
    with claim(place, {"recipe": "quickstart", "seed": 0}, resume=False) as claimed:
        shutil.copytree(begun, place / "arms" / "one")
        with pytest.raises(
            ValueError, match="holds an unfinished run of a recipe; continue with .*, or load .*arms/one$"
        ):
            fedrl.load(place)
        claimed.mark_finished()
    assert fedrl.load(place).rows[-1]["round"] == 2
    (place / "arms" / "two").mkdir()
    with pytest.raises(ValueError, match="holds 2 arms; load one of them: .*arms/one$"):
        fedrl.load(place)
