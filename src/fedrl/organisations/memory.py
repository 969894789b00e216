"""What clients remember between rounds, on the site's disk: one file per version, written atomically and with its checksum.

The server names the version that it has counted (`remote.py`). A version stays until later ones have been counted, so that
whatever the server lost, it can ask again from where it was.
"""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from fedrl.organisations.tables import FileError
from fedrl.records.tensors import from_bytes, sync_folder, to_bytes, write_atomically
from fedrl.trees import Tree

KEPT = 3  # versions before the one that was counted: a server goes back by one round, or two if its disk was damaged
DIGEST = hashlib.sha256().digest_size


class Store(NamedTuple):
    """The memories of one run's clients."""

    folder: Path

    def save(self, client: int, version: int, memory: Tree, counted: int) -> None:
        """Keep `memory` as `version`; the server has counted the version `counted`, from which it was made."""
        folder = self.folder / f"client-{client}"
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            sync_folder(folder.parent)
        data = to_bytes(memory)
        write_atomically(_file(folder, version), data + hashlib.sha256(data).digest())
        for old in sorted(v for v in versions(folder) if v < counted)[:-KEPT]:
            _file(folder, old).unlink(missing_ok=True)

    def load(self, client: int, version: int, like: Tree) -> Tree:
        path = _file(self.folder / f"client-{client}", version)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise FileError(
                f"client {client}: its memory of version {version} is not on this site's disk ({path.name} is missing; "
                f"there are {versions(path.parent) or 'none'}); restore the folder {self.folder.name} from your backup"
            ) from None
        if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
            raise FileError(
                f"client {client}: {path.name} is damaged (its checksum differs); restore it from your backup"
            )
        return from_bytes(data[:-DIGEST], like, name=str(path))


def versions(folder: Path) -> list[int]:
    """The versions on the disk, ascending."""
    names = (re.fullmatch(r"(\d+)\.safetensors", path.name) for path in folder.glob("*.safetensors"))
    return sorted(int(match[1]) for match in names if match)


def _file(folder: Path, version: int) -> Path:
    return folder / f"{version:08d}.safetensors"
