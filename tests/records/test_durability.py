"""What must be on the disk before what: the system's calls in their order, each really made."""

import json
import os
import stat

import numpy as np
import pytest
from support.federations import federation
from support.server_trees import server

from fedrl import train
from fedrl.algorithms.fedavg import pavg
from fedrl.records import checkpoint
from fedrl.records.log import LogWriter
from fedrl.records.tensors import write_atomically


@pytest.fixture
def calls(monkeypatch):
    """("sync", inode, size) for files, ("sync folder", inode), ("rename", inode, new name)."""
    found: list[tuple] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(handle: int) -> None:
        about = os.fstat(handle)
        folder = stat.S_ISDIR(about.st_mode)
        fsync(handle)
        found.append(("sync folder", about.st_ino) if folder else ("sync", about.st_ino, about.st_size))

    def record_replace(old, new) -> None:
        inode = os.stat(old).st_ino
        replace(old, new)
        found.append(("rename", inode, os.path.basename(new)))

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    return found


def inode(path) -> int:
    return os.stat(path).st_ino


def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_the_name_is(tmp_path, calls):
    write_atomically(tmp_path / "run.toml", b"twelve bytes")
    file = inode(tmp_path / "run.toml")
    assert calls == [("sync", file, 12), ("rename", file, "run.toml"), ("sync folder", inode(tmp_path))]


def test_a_log_is_on_the_disk_when_sync_returns(tmp_path, calls):
    with LogWriter(tmp_path / "log.jsonl") as log:
        calls.clear()
        log.write({"round": 0})
        assert calls == []  # written, so that it can be watched, but not yet safe
        size = log.sync()
        assert calls == [("sync", inode(tmp_path / "log.jsonl"), size)]
        log.write({"round": 1})
        calls.clear()
    assert [call[0] for call in calls] == ["sync"]  # closing makes the rest safe
    assert calls[0][2] == os.path.getsize(tmp_path / "log.jsonl") > size


def test_the_data_of_a_checkpoint_is_safe_before_its_sidecar_says_so(tmp_path, calls):
    folder = tmp_path / "checkpoint"
    checkpoint.save(folder, server(7), round=3, log_bytes=0)
    data, sidecar = folder / "round-000003.safetensors", folder / "round-000003.json"
    assert calls[0] == ("sync folder", inode(tmp_path))  # the folder's own name
    assert calls[1:] == [
        step
        for path in (data, sidecar)
        for step in (
            ("sync", inode(path), os.path.getsize(path)),
            ("rename", inode(path), path.name),
            ("sync folder", inode(folder)),
        )
    ]


def test_a_run_syncs_its_log_before_the_checkpoint_that_counts_on_it(tmp_path, calls):
    train(pavg(eta=0.1, local_steps=1, horizon=2), federation(2), rounds=1, out=tmp_path / "run")
    log = inode(tmp_path / "run" / "log.jsonl")
    (sidecar,) = (tmp_path / "run" / "checkpoint").glob("*.json")
    counted = json.loads(sidecar.read_text())["log_bytes"]
    at = calls.index(("rename", inode(sidecar), sidecar.name))
    assert ("sync", log, counted) in calls[:at]
    assert counted > 0


def test_bytes_that_were_there_stay_until_the_new_ones_are_whole(tmp_path, monkeypatch):
    """A full disk at the sync: the old file, and nothing beside it."""
    (tmp_path / "a").write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "a", bytes(np.ones(9)))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}
