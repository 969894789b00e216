"""The folder a run leaves behind: who may write it, which run it holds, and whether that run is finished."""

import fcntl
import json
import math
import os
import tomllib
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from fedrl.records.tensors import is_temporary, sync_folder, write_atomically

Config = dict[str, Any]


class RunFolderError(ValueError):
    """The folder cannot be used as asked; the message is one sentence for the user."""


class RunFolder:
    """The names of a run's files. `RunFolder(path)` only looks; `claim` is the way to get one to write to."""

    def __init__(self, path: str | Path, lock: int | None = None):
        self.path = Path(path)
        self.log = self.path / "log.jsonl"
        self.checkpoint = self.path / "checkpoint"
        self.policy = self.path / "policy.safetensors"
        self.figures = self.path / "figures"
        self.report = self.path / "report.html"
        self.verdict = self.path / "verdict.json"
        self._lock = lock
        self._release = None if lock is None else weakref.finalize(self, os.close, lock)

    @property
    def config(self) -> Config:
        return read_config(self.path)

    @property
    def finished(self) -> bool:
        return (self.path / "finished.json").exists()

    def mark_finished(self) -> None:
        """The last thing a run does: after this, everything else in the folder is complete."""
        when = datetime.now(UTC).isoformat(timespec="seconds")
        write_atomically(self.path / "finished.json", (json.dumps({"finished": when}) + "\n").encode())

    def sign(self) -> None:
        """Write into the lock which process holds it, for whoever finds it taken."""
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def close(self) -> None:
        """Let other processes write here. Also happens when the object or the process goes."""
        if self._release is not None:
            self._release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def claim(path: str | Path, config: Config, resume: bool) -> RunFolder:
    """The folder `path` for the run `config`, locked for the life of the object, or a `RunFolderError`.

    An error leaves the folder as it was, hence the look before the lock; the second look is the one nobody can disturb.
    """
    path = Path(path)
    text = _to_toml(config)
    try:
        if not (path / ".lock").exists():
            _check(path, config, resume)
        path.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path, _lock(path))
        try:
            _check(path, config, resume)
            folder.sign()
            if not (path / "run.toml").exists():
                write_atomically(path / "run.toml", text)
                sync_folder(path.parent)
        except BaseException:
            folder.close()
            raise
    except OSError as error:
        raise RunFolderError(
            f"cannot write a run to {path} ({error.strerror}); pass an --out folder that you may write to"
        ) from None
    return folder


def read_config(path: str | Path) -> Config:
    """The config in a `run.toml`, or in that of a run folder."""
    path = Path(path)
    path = path / "run.toml" if path.is_dir() else path
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunFolderError(f"cannot read {path} ({error.strerror}); pass a run.toml or a run folder") from None
    except ValueError as error:
        raise RunFolderError(f"{path} is not valid TOML ({error}); correct that place") from None


def free_name(parent: str | Path, stem: str) -> Path:
    """`parent/stem`, or the first of `stem-2`, `stem-3`, … that does not exist."""
    path, number = Path(parent) / stem, 1
    while os.path.lexists(path):
        number += 1
        path = Path(parent) / f"{stem}-{number}"
    return path


def find_resumable(parent: str | Path, config: Config) -> Path | None:
    """The most recently started unfinished run of this very `config` under `parent`, if there is one."""
    started = sorted(Path(parent).glob("*/run.toml"), key=lambda file: (file.stat().st_mtime_ns, file), reverse=True)
    for file in started:
        try:
            same = _first_difference(read_config(file), config) is None
        except RunFolderError:
            continue  # somebody's broken folder is no reason not to find this one
        if same and not RunFolder(file.parent).finished:
            return file.parent
    return None


def _check(path: Path, config: Config, resume: bool) -> None:
    """Raise unless `path` is missing, empty, or holds this run and `resume` says that this is known."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunFolderError(f"{path} is a file, and a run needs a folder; pass another --out")
    if not (path / "run.toml").exists():
        others = sorted(file.name for file in path.iterdir() if file.name != ".lock" and not is_temporary(file.name))
        if others:
            raise RunFolderError(f"{path} holds other files ({others[0]}) but no run.toml; pass an empty or new --out")
        return
    if difference := _first_difference(read_config(path), config):
        key, there, here = difference
        raise RunFolderError(f"{path} holds a different run ({key} is {there} there, {here} here); pass another --out")
    if not resume and RunFolder(path).finished:
        raise RunFolderError(f"{path} holds this run, finished; pass --resume to look at it again, or another --out")
    if not resume:
        raise RunFolderError(f"{path} holds this run, unfinished; pass --resume to go on, or another --out")


def _lock(path: Path) -> int:
    """An open file that holds the lock; the system lets go of it when the process dies, however it dies."""
    handle = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(handle, 20).decode(errors="replace") or "unknown"
        os.close(handle)
        raise RunFolderError(
            f"{path} is being written by another run (process {owner}); wait for it or stop it, or pass another --out"
        ) from None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _to_toml(config: Config) -> bytes:
    try:
        return ("# `fedrl run` with this file repeats the run.\n" + tomli_w.dumps(config)).encode()
    except TypeError as error:
        raise TypeError(
            f"config must hold text, numbers, booleans, lists and dicts only ({error}); convert it first"
        ) from None


def _first_difference(there: Any, here: Any, key: str = "") -> tuple[str, str, str] | None:
    """The first key, in order of name, whose values differ, with both as text; None if the two are the same run."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in sorted(there.keys() | here.keys()):
            inside = f"{key}.{name}".lstrip(".")
            if name not in there or name not in here:
                return inside, _show(there, name), _show(here, name)
            if difference := _first_difference(there[name], here[name], inside):
                return difference
        return None
    return None if _same(there, here) else (key, repr(there), repr(here))


def _same(a: Any, b: Any) -> bool:
    """Equal as TOML sees it: a tuple is a list, 1 is 1.0 but not true, and NaN is NaN."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return _first_difference(a, b) is None
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _show(config: dict, name: str) -> str:
    return repr(config[name]) if name in config else "not set"
