"""A Ray that only its owner can use: on the loopback address, and behind a token that no other user can read.

Ray replaces the node address 127.0.0.1 by the machine's own and then listens on all interfaces, except on systems for which
it supports no clusters (macOS, Windows). The token keeps out the other users of the machine.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

NEXT_MOVE = (
    "put its token into ~/.ray/auth_token or RAY_AUTH_TOKEN and set RAY_AUTH_MODE=token; "
    "on its first machine `ray get-auth-token` prints it"
)


@contextmanager
def loopback(ray: ModuleType) -> Iterator[None]:
    """A Ray that is started meanwhile listens on 127.0.0.1 only, as Ray does by default on macOS and Windows."""
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def prepare_token(ray: ModuleType, *, joining: bool) -> None:
    """Ask for the token, make one if there is none, and close its file to other users.

    A RAY_AUTH_MODE that the user has set stays. A cluster that is joined decides for itself: then only the file is closed.
    """
    if not joining:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        path = Path.home() / ".ray" / "auth_token"
        if not joining and os.environ["RAY_AUTH_MODE"].lower() == "token":
            _make(path)
        _close(path)
    ray._raylet.Config.initialize("")  # Ray may have read mode and token before
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def _make(path: Path) -> None:
    """A new token that only its owner can read from the first instant on; one that is there already stays."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    with suppress(FileExistsError):  # another process was faster
        os.link(part, path)
    part.unlink()


def _close(path: Path) -> None:
    """Mode 600 in a folder of mode 700; Ray itself leaves both open to readers."""
    if path.exists():
        path.parent.chmod(0o700)
        path.chmod(0o600)
