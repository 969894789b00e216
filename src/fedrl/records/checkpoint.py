"""Checkpoints that are either complete or absent.

`round-000123.safetensors` is written first, then `round-000123.json` with its length and sha256 and a checksum of
itself. A checkpoint exists once that sidecar does; everything else in the folder is litter from a crash.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.errors import FedRLError
from fedrl.records.tensors import from_bytes, sync_folder, to_bytes, write_atomically
from fedrl.trees import Tree


class Checkpoint(NamedTuple):
    state: Tree
    round: int
    log_bytes: int  # length of the log at that time: to resume, cut it there


class CheckpointCorrupted(FedRLError, ValueError):
    """A checkpoint cannot be used; the message says why."""


def save(folder: str | Path, state_tree: Tree, *, round: int, log_bytes: int, keep: int = 2) -> None:
    """Write the checkpoint of `round`, then remove all but it and the `keep - 1` whole ones before it.

    Later rounds are removed too: they can only come from a history that was abandoned when an earlier round was resumed.
    Sync the log first, so that `log_bytes` of it are on the disk when this returns.
    """
    if keep < 1:
        raise ValueError(f"keep={keep} would remove the checkpoint just written; pass 1 or more")
    if round < 0 or log_bytes < 0:
        raise ValueError(f"round={round} and log_bytes={log_bytes} must not be negative; pass counts")
    folder = Path(folder)
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)
    data = to_bytes(state_tree)
    write_atomically(_data(folder, round), data)
    write_atomically(_sidecar(folder, round), _describe(round, log_bytes, len(data), hashlib.sha256(data).hexdigest()))
    _prune(folder, round, keep)


def newest(folder: str | Path, like: Tree) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint (None if there is none) and, newest first, which ones were skipped and why.

    A whole checkpoint that does not match `like` was written by a different program: that raises ValueError.
    """
    folder = Path(folder)
    whole, corrupted = _newest_whole(folder)
    if whole is None:
        return None, corrupted
    round, data, log_bytes = whole
    return Checkpoint(from_bytes(data, like, name=str(_data(folder, round))), round, log_bytes), corrupted


def check(folder: str | Path) -> tuple[int | None, list[str]]:
    """The round of the newest whole checkpoint (None if there is none) and, newest first, which are damaged and why."""
    whole, corrupted = _newest_whole(Path(folder))
    return whole[0] if whole else None, corrupted


def _newest_whole(folder: Path) -> tuple[tuple[int, bytes, int] | None, list[str]]:
    """The newest whole checkpoint: its round, its data and the length of the log; and what is wrong with newer ones."""
    corrupted: list[str] = []
    for round in sorted(_rounds(folder), reverse=True):
        try:
            return (round, *_read(folder, round)), corrupted
        except CheckpointCorrupted as reason:
            corrupted.append(str(reason))
    return None, corrupted


def _data(folder: Path, round: int) -> Path:
    return folder / f"round-{round:06d}.safetensors"


def _sidecar(folder: Path, round: int) -> Path:
    return folder / f"round-{round:06d}.json"


def _rounds(folder: Path) -> set[int]:
    """Rounds with at least one of the two files."""
    if not folder.is_dir():
        return set()
    matches = (re.fullmatch(r"round-(\d{6,})\.(safetensors|json)", path.name) for path in folder.iterdir())
    return {int(match[1]) for match in matches if match}


def _describe(round: int, log_bytes: int, length: int, sha256: str) -> bytes:
    """The only valid bytes of a sidecar. Reading compares all of them, so that any change is noticed."""
    fields = {"round": round, "log_bytes": log_bytes, "data_bytes": length, "data_sha256": sha256}
    checksum = hashlib.sha256(json.dumps(fields).encode()).hexdigest()
    return (json.dumps(fields | {"checksum": checksum}, indent=1) + "\n").encode()


def _read_sidecar(folder: Path, round: int) -> dict[str, Any]:
    sidecar = _sidecar(folder, round)
    try:
        text = sidecar.read_bytes()
    except FileNotFoundError:
        raise CheckpointCorrupted(
            f"{_data(folder, round).name}: no {sidecar.name} beside it, it was never finished"
        ) from None
    except OSError as error:
        raise CheckpointCorrupted(f"{sidecar.name}: cannot be read ({error.strerror})") from None
    try:
        fields: dict[str, Any] = json.loads(text)
        whole = text == _describe(round, fields["log_bytes"], fields["data_bytes"], fields["data_sha256"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointCorrupted(f"{sidecar.name}: truncated or altered") from None
    if not whole:
        raise CheckpointCorrupted(f"{sidecar.name}: its checksum differs")
    return fields


def _read(folder: Path, round: int) -> tuple[bytes, int]:
    """Returns the very bytes that were hashed: nothing is read twice."""
    fields, path = _read_sidecar(folder, round), _data(folder, round)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointCorrupted(f"{path.name}: cannot be read ({error.strerror})") from None
    if len(data) != fields["data_bytes"]:
        raise CheckpointCorrupted(f"{path.name}: {len(data)} bytes, expected {fields['data_bytes']}")
    if hashlib.sha256(data).hexdigest() != fields["data_sha256"]:
        raise CheckpointCorrupted(f"{path.name}: sha256 differs")
    return data, fields["log_bytes"]


def _prune(folder: Path, newest_round: int, keep: int) -> None:
    """Only checkpoints with a whole sidecar count towards `keep`; older data is not hashed again."""
    kept = {newest_round}
    for round in sorted(_rounds(folder), reverse=True):
        if round < newest_round and len(kept) < keep and _looks_whole(folder, round):
            kept.add(round)
    for round in sorted(_rounds(folder) - kept):
        _sidecar(folder, round).unlink(missing_ok=True)  # first, so that a crash here leaves litter, not a false claim
        _data(folder, round).unlink(missing_ok=True)


def _looks_whole(folder: Path, round: int) -> bool:
    try:
        return bool(_data(folder, round).stat().st_size == _read_sidecar(folder, round)["data_bytes"])
    except (CheckpointCorrupted, OSError):
        return False
