"""Files that only their owner may read: keys and secrets. Nobody else can open them, not even while they are written."""

import os
import secrets
from pathlib import Path

OWNER_ONLY = 0o600


def write_private(path: Path, data: bytes) -> None:
    """Write `data` to `path` with mode 600. After a crash `path` holds either the old bytes or all of the new ones."""
    _replace(path, data, OWNER_ONLY)


def write_public(path: Path, data: bytes) -> None:
    """The same for what everybody may read: certificates, public keys, settings."""
    _replace(path, data, 0o644)


def _replace(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, mode)  # whatever the umask is
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
