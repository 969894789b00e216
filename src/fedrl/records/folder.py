"""A run's folder: who may write to it, which run it holds, and whether that run is finished."""

import json
import os
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from filelock import BaseFileLock

from fedrl.records import lock as locks
from fedrl.records import train_folder
from fedrl.records.identity import CODE, Config
from fedrl.records.run_toml import RunFolderError, is_trained, read_config, to_toml, version_note, what_differs
from fedrl.records.tensors import is_temporary, sync_folder, write_atomically


class RunFolder:
    """The names of a run's files. `RunFolder(path)` only reads; `claim` and `join` return one to write to."""

    def __init__(self, path: str | Path, lock: BaseFileLock | None = None):
        self.path = Path(path)
        self.log = self.path / "log.jsonl"
        self.checkpoint = self.path / "checkpoint"
        self.policy = self.path / "policy.safetensors"
        self.figures = self.path / "figures"
        self.report = self.path / "report.html"
        self.verdict = self.path / "verdict.json"
        self._release = None if lock is None else weakref.finalize(self, lock.release)

    @property
    def config(self) -> Config:
        return read_config(self.path)

    @property
    def finished(self) -> bool:
        return (self.path / "finished.json").exists()

    def mark_finished(self) -> None:
        """The last thing a run does: once this file exists, everything else in the folder is complete."""
        when = datetime.now(UTC).isoformat(timespec="seconds")
        write_atomically(self.path / "finished.json", (json.dumps({"finished": when}) + "\n").encode())

    def close(self) -> None:
        """Let other processes write here. Also happens when the object is collected or the process ends."""
        if self._release is not None:
            self._release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def claim(path: str | Path, config: Config, resume: bool) -> RunFolder:
    """The folder `path` for the recipe's run `config`, locked as long as the object lives, or a `RunFolderError`."""
    path = Path(path)
    return _take(path, to_toml(config), lambda: _check(path, config, resume), "--out")


def join(path: str | Path, config: Config, warn: Callable[[str], None]) -> RunFolder:
    """The folder `path` for the run of `fedrl.train` that `config` describes, locked as long as the object lives.

    Raises `RunFolderError` unless the folder is new or holds the same run; other package versions only warn.
    """
    path = Path(path)
    folder = _take(path, to_toml(config), lambda: train_folder.check(path, config), "out")
    if note := train_folder.note(path) or version_note(path):
        warn(note)
    return folder


def _take(path: Path, text: bytes, check: Callable[[], None], option: str) -> RunFolder:
    """An error must leave the folder unchanged, so check before locking; the second check cannot be disturbed."""
    try:
        if not (path / ".lock").exists():
            check()
        path.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path, _lock(path, option))
        try:
            check()
            locks.sign(path)
            if not any((path / name).exists() for name in ("run.toml", train_folder.OLD)):
                write_atomically(path / "run.toml", text)
                sync_folder(path.parent)
        except BaseException:
            folder.close()
            raise
    except OSError as error:
        raise RunFolderError(
            f"cannot write a run to {path} ({error.strerror}); pass an {option} folder that you may write to"
        ) from None
    return folder


def free_name(parent: str | Path, stem: str) -> Path:
    """`parent/stem`, or the first of `stem-2`, `stem-3`, … that does not exist."""
    path, number = Path(parent) / stem, 1
    while os.path.lexists(path):
        number += 1
        path = Path(parent) / f"{stem}-{number}"
    return path


def find_resumable(parent: str | Path, config: Config) -> Path | None:
    """The most recently started unfinished run of exactly this `config` under `parent`, if there is one."""
    started = sorted(Path(parent).glob("*/run.toml"), key=lambda file: (file.stat().st_mtime_ns, file), reverse=True)
    for file in started:
        try:
            same = not what_differs(file, config)
        except RunFolderError:
            continue  # an unrelated broken folder must not hide this run
        if same and not RunFolder(file.parent).finished:
            return file.parent
    return None


def _check(path: Path, config: Config, resume: bool) -> None:
    """Raise unless `path` is missing, empty, or holds this run and `resume` is set."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunFolderError(f"{path} is a file, and a run needs a folder; pass another --out")
    if not (path / "run.toml").exists():
        names = (file.name for file in path.iterdir())
        others = sorted(name for name in names if name not in locks.FILES and not is_temporary(name))
        if others:
            raise RunFolderError(f"{path} holds other files ({others[0]}) but no run.toml; pass an empty or new --out")
        return
    if is_trained(read_config(path)):
        raise RunFolderError(f"{path} holds a run of fedrl.train, not of a recipe; pass another --out")
    if different := what_differs(path, config):
        fixed = all(phrase.startswith(CODE) for phrase in different)
        move = "delete that `code` line from run.toml if you fixed a bug and want to continue, or " if fixed else ""
        raise RunFolderError(f"{path} holds a different run ({different[0]}); {move}pass another --out")
    if not resume and RunFolder(path).finished:
        raise RunFolderError(f"{path} holds this run, finished; pass --resume to look at it again, or another --out")
    if not resume:
        raise RunFolderError(f"{path} holds this run, unfinished; pass --resume to continue, or another --out")


def _lock(path: Path, option: str) -> BaseFileLock:
    lock = locks.hold(path)
    if lock is None:
        raise RunFolderError(
            f"{path} is being written by another run (process {locks.owner(path)}); wait for it or stop it, or pass "
            f"another {option}"
        )
    return lock
