"""Which of a federation's folders somebody has passed: the server's, a site's, or another one."""

import os
import shlex
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fedrl.errors import FedRLError
from fedrl.organisations.layout import ServerFiles, SiteFiles

SHOWN = 5  # of the folders inside


class FolderError(FedRLError, ValueError):
    """It is the wrong folder; the message says which would be right."""


class Unwritable(NamedTuple):
    folder: Path
    why: str


def is_server(folder: Path) -> bool:
    return ServerFiles(folder).settings.exists()


def is_site(folder: Path) -> bool:
    return SiteFiles(folder).settings.exists() or SiteFiles(folder).key.exists()


def server(folder: Path) -> ServerFiles:
    """The files of a server's folder, half of which may be missing."""
    _require_folder(folder)
    if is_site(folder) and not is_server(folder):
        raise FolderError(
            f"{folder} is the folder of a site, and this is for the server's; ask its operator, or take part: "
            f"fedrl federation join {shlex.quote(str(folder))}"
        )
    files = ServerFiles(folder)
    if not any(path.exists() for path in (files.settings, files.key, files.status)):
        raise FolderError(f"{folder} is not the folder of a server: it has no server.toml; {_hint(folder)}")
    return files


def site(folder: Path) -> SiteFiles:
    """The files of a site's folder, half of which may be missing."""
    _require_folder(folder)
    if is_server(folder) and not is_site(folder):
        raise FolderError(
            f"{folder} is the folder of the server, and this is for a site's; start the server with: "
            f"fedrl federation serve {shlex.quote(str(folder))}"
        )
    if not is_site(folder):
        raise FolderError(f"{folder} is not the folder of a site: it has no site.toml; {_hint(folder)}")
    return SiteFiles(folder)


def either(folder: Path) -> ServerFiles | SiteFiles:
    _require_folder(folder)
    if is_server(folder) or (folder.name == "server" and not is_site(folder)):
        return ServerFiles(folder)
    if is_site(folder):
        return SiteFiles(folder)
    raise FolderError(f"{folder} has neither server.toml nor site.toml; {_hint(folder)}")


def unwritable(folders: Iterable[Path]) -> Unwritable | None:
    """The first that is there and cannot be written to, perhaps because it belongs to another user."""
    for folder in filter(os.path.lexists, folders):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"x")
        except OSError as error:
            return Unwritable(folder, error.strerror or str(error))
    return None


def require_writable(files: ServerFiles | SiteFiles) -> None:
    if found := unwritable(files.written):
        raise FolderError(
            f"{found.folder} cannot be written to ({found.why}); make it a folder that this user may write to, or free "
            "some space"
        )


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise FolderError(
            f"{folder} {what}; pass a folder that `fedrl federation init` made: the server's, or a site's"
        )


def _hint(folder: Path) -> str:
    inside = [path.parent for name in ("server.toml", "site.toml") for path in sorted(folder.glob(f"*/{name}"))]
    if not inside:
        return "pass one that `fedrl federation init` made"
    more = f" or one of {len(inside) - SHOWN} others" if len(inside) > SHOWN else ""
    return f"pass one of its folders: {', '.join(map(str, inside[:SHOWN]))}{more}"
