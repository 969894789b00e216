"""What a run stores of its experiment is opened only if it is one's own; nothing is run before that is known."""

import importlib
import os
import sys
import threading
from typing import Any, NamedTuple

import pytest

from fedrl.records import experiment_file
from fedrl.records.run_toml import RunFolderError


class Record(NamedTuple):
    method: Any = 1
    federation: Any = 2


class Payload:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (self.file,)


def test_it_comes_back(tmp_path):
    offset = 3
    experiment_file.write(tmp_path, Record(lambda x: x + offset), rounds=5)
    assert experiment_file.parts_of(tmp_path).about["rounds"] == 5
    assert experiment_file.read(tmp_path).method(4) == 7


def test_what_somebody_else_wrote_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "theirs"))
    experiment_file.write(tmp_path, Record(Payload(str(tmp_path / "ran"))), rounds=5)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    with pytest.raises(RunFolderError, match="not written by you on this machine.*--trust .*trust=True"):
        experiment_file.read(tmp_path)
    assert not (tmp_path / "ran").exists()
    experiment_file.read(tmp_path, trust=True)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", [-20, 100])
def test_one_changed_byte_is_noticed(tmp_path, place):
    experiment_file.write(tmp_path, Record("a" * 100), rounds=5)
    content = bytearray((tmp_path / "experiment.pkl").read_bytes())
    content[place] ^= 1
    (tmp_path / "experiment.pkl").write_bytes(content)
    with pytest.raises(RunFolderError, match="not written by you|is damaged"):
        experiment_file.read(tmp_path)


def test_what_cannot_be_pickled_is_named_and_an_older_file_goes(tmp_path):
    experiment_file.write(tmp_path, Record(), rounds=5)
    with pytest.raises(experiment_file.CannotStore, match="its federation: TypeError: cannot pickle '_thread.lock'"):
        experiment_file.write(tmp_path, Record(federation=threading.Lock()), rounds=5)
    assert not (tmp_path / "experiment.pkl").exists()


def test_a_large_experiment_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment_file, "MOST_BYTES", 2**20)
    with pytest.raises(experiment_file.CannotStore, match="its method: ValueError: it is larger than 1 MB"):
        experiment_file.write(tmp_path, Record(bytes(2**21)), rounds=5)


def test_the_users_own_modules_travel(tmp_path, monkeypatch):
    """Next week their files may be elsewhere."""
    (tmp_path / "plant_of_mine.py").write_text("LEVEL = 4\ndef level(x):\n    return x + LEVEL\n")
    monkeypatch.syspath_prepend(tmp_path)
    experiment_file.write(tmp_path, Record(importlib.import_module("plant_of_mine").level), rounds=5)
    (tmp_path / "plant_of_mine.py").unlink()
    del sys.modules["plant_of_mine"]
    assert experiment_file.read(tmp_path).method(1) == 5


def test_files_of_others_versions(tmp_path, monkeypatch):
    with pytest.raises(RunFolderError, match="has no experiment.pkl .*an earlier version.* fedrl.load"):
        experiment_file.read(tmp_path)
    (tmp_path / "experiment.pkl").write_bytes(b"fedrl-experiment/2\nabc")
    with pytest.raises(RunFolderError, match="damaged or of another version of fedrl"):
        experiment_file.read(tmp_path)
    monkeypatch.setattr(experiment_file, "versions", lambda: {"python": "3.99.1", "fedrl": "9"})
    experiment_file.write(tmp_path, Record(), rounds=5)
    monkeypatch.undo()
    with pytest.raises(RunFolderError, match=r"written by Python 3.99.1 and holds compiled code, this is Python 3\."):
        experiment_file.read(tmp_path)
    arm = tmp_path / "run" / "arms" / "PAvg"
    arm.mkdir(parents=True)
    (tmp_path / "run" / "run.toml").write_text('recipe = "quickstart"\n')
    with pytest.raises(RunFolderError, match="is an arm of a recipe's run.*pass the whole run"):
        experiment_file.read(arm)
