"""Signatures that only this user on this machine can make: an HMAC with a secret in the user's settings, mode 600."""

import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from fedrl.cache_folder import config_folder

BYTES = 32


def sign(data: bytes) -> str:
    """The signature of `data`; an `OSError` if the secret cannot be stored."""
    return hmac.digest(_secret() or _new_secret(), data, "sha256").hex()


def is_own(data: bytes, signature: str) -> bool:
    """Whether this user on this machine signed `data`."""
    secret = _secret()
    if secret is None:
        return False
    return hmac.compare_digest(hmac.digest(secret, data, "sha256").hex().encode(), signature.encode())


def _file() -> Path:
    return config_folder() / "secret"


def _secret() -> bytes | None:
    """The secret, unless there is none, it is damaged, or others may have read it."""
    try:
        about = _file().stat()
        content = _file().read_bytes()
    except OSError:
        return None
    private = os.name != "posix" or (about.st_uid == os.getuid() and not stat.S_IMODE(about.st_mode) & 0o077)
    return content if private and len(content) == BYTES else None


def _new_secret() -> bytes:
    """A new secret in the place of none or of one that cannot be used; of two processes at once, one wins."""
    file, own = _file(), _file().with_name(f".secret-{secrets.token_hex(8)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(secrets.token_bytes(BYTES))
        if file.exists() and _secret() is None:
            file.unlink(missing_ok=True)
        with suppress(FileExistsError):
            os.link(own, file)
    finally:
        own.unlink(missing_ok=True)
    secret = _secret()
    if secret is None:
        raise OSError(f"{file} cannot be made private")
    return secret
