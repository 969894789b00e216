"""What clients remember between rounds, on the site's disk: one file per version, written atomically and with its checksum.

The server names the version that it has counted (`remote.py`). A version stays until several that were made from it, one
after the other, have been counted, so that whatever the server lost, it can ask again from where it was.
"""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from fedrl.organisations.tables import FileError
from fedrl.records.tensors import from_bytes, sync_folder, to_bytes, write_atomically
from fedrl.trees import Tree

KEPT = 4  # counted versions before the newest: a server goes back by one round, or two if its disk was damaged
DIGEST = hashlib.sha256().digest_size
LONGEST_HEADER = 64 << 20
MADE_FROM = "made_from"  # in a file's header: the version from which this one was made


class Store(NamedTuple):
    """The memories of one run's clients."""

    folder: Path

    def save(self, client: int, version: int, memory: Tree, counted: int) -> None:
        """Keep `memory` as `version`; the server has counted the version `counted`, from which it was made."""
        if version <= counted:
            raise FileError(
                f"client {client}: its memory of version {version} cannot be made from version {counted}, which is not "
                "older; install the same fedrl on both sides"
            )
        folder = self.folder / f"client-{client}"
        _create(folder)
        data = to_bytes(memory, {MADE_FROM: str(counted)})
        write_atomically(_file(folder, version), data + hashlib.sha256(data).digest())
        kept = _line(folder, counted)
        for old in versions(folder):
            if old < counted and old not in kept:
                _file(folder, old).unlink(missing_ok=True)

    def load(self, client: int, version: int, like: Tree) -> Tree:
        folder = self.folder / f"client-{client}"
        path = _file(folder, version)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise FileError(
                f"client {client}: its memory of version {version} is not on this site's disk ({path.name} is missing; "
                f"there are {versions(folder) or 'none'}); restore the folder {self.folder.name} from your backup"
            ) from None
        if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
            raise FileError(
                f"client {client}: {path.name} is damaged (its checksum differs); restore it from your backup"
            )
        return from_bytes(data[:-DIGEST], like, name=str(path))

    def digest(self, client: int, version: int) -> bytes:
        """The checksum at the end of a version's file."""
        with _file(self.folder / f"client-{client}", version).open("rb") as file:
            file.seek(-DIGEST, os.SEEK_END)
            return file.read()


def versions(folder: Path) -> list[int]:
    """The versions on the disk, ascending."""
    names = (re.fullmatch(r"(\d+)\.safetensors", path.name) for path in folder.glob("*.safetensors"))
    return sorted(int(match[1]) for match in names if match)


def _line(folder: Path, version: int) -> set[int]:
    """`version`, the one from which it was made, and so on. All there are, where that cannot be read any more.

    Between them lie versions that never counted, because the site was left out.
    """
    line = {version}
    while len(line) <= KEPT and version > 0:  # 0 is how all clients begin, and no file
        try:
            before = _made_from(_file(folder, version))
        except (OSError, ValueError, KeyError, TypeError):
            return {*line, *versions(folder)}
        if before >= version:  # no line has a circle: the file is damaged
            return {*line, *versions(folder)}
        version = before
        line.add(version)
    return line


def _made_from(path: Path) -> int:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return int(json.loads(file.read(min(size, LONGEST_HEADER)))["__metadata__"][MADE_FROM])


def _create(folder: Path) -> None:
    """A folder that only this user can read, and that is still there after a power cut."""
    if folder.is_dir():
        return
    _create(folder.parent)
    folder.mkdir(exist_ok=True, mode=0o700)
    sync_folder(folder.parent)


def _file(folder: Path, version: int) -> Path:
    return folder / f"{version:08d}.safetensors"
