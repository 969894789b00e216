"""`fedrl federation init`: the folders of a federation, one for the server, one to hand to each site."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fedrl.organisations import (
    addresses,
    agreement,
    certificates,
    node_keys,
    server_settings,
    templates,
    versions,
    world,
)
from fedrl.organisations.addresses import Address
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.layout import ServerFiles, SiteFiles
from fedrl.organisations.private_files import write_private, write_public
from fedrl.organisations.tables import FileError
from fedrl.organisations.templates import World

MOST_CLIENTS = 10_000


class Created(NamedTuple):
    """A new federation."""

    sites: dict[str, int]
    address: Address
    listen: Address
    note: str  # why the spaces of the environment are not filled in, or empty


class Added(NamedTuple):
    """A site that got a key pair."""

    files: SiteFiles
    is_new: bool
    revoked: Path | None  # where its old public key is now


def create(
    folder: Path,
    sites: Sequence[str],
    address: str,
    listen: str | None = None,
    environment: str | None = None,
    clients: int = 1,
) -> Created:
    """Write the folders of a new federation, all of them or nothing.

    Each of `sites` is a name, which stands for `clients` clients, or "name:3".
    """
    folder = Path(os.path.abspath(folder))
    counts, where = parse_sites(sites, clients), addresses.parse_reachable(address, "--address")
    listens = addresses.parse_listen(listen, "--listen") if listen else addresses.default_listen(where)
    _refuse_existing(folder)
    seen, note = _look(environment)
    with _renamed_when_done(folder) as new:
        server, authority = ServerFiles(new / "server"), AuthorityFiles(new / "ca")
        for made in (authority.home, server.home, server.site_keys):
            made.mkdir(mode=0o700)
        certificates.create_authority(authority, folder.name)
        certificates.issue_server(authority, server, where.host)
        write_public(server.ca, authority.certificate.read_bytes())
        here = {package: number for package, number in versions.installed().items() if number != versions.MISSING}
        text = templates.federation(folder.name, counts, seen, here)
        write_public(server.agreement, text.encode())
        write_public(server.settings, templates.server(where, listens).encode())
        for name, count in counts.items():
            files = SiteFiles(new / name)
            files.home.mkdir(mode=0o700)
            settings = templates.site(name, where, count, environment or world.DEFAULT, seen.kind)
            _register(server, name, _fill(files, server, name, settings))
    return Created(counts, where, listens, note)


def add(folder: Path, name: str, environment: str | None = None) -> Added:
    """A folder and a key pair for a site that federation.toml lists. If it has a key, that is revoked and replaced.

    A site's folder that is there keeps its settings, secret and memory. The old key is revoked last: after a crash it is
    still good, and the same command again finishes the work.
    """
    folder = Path(os.path.abspath(folder))
    server = _server_of(folder)
    agreed = agreement.read(server.agreement)
    if name not in agreed.sites:
        raise FileError(
            f"{server.agreement} has the sites {', '.join(agreed.sites)}, not {name!r}; add it at the end of [sites], hand "
            "the file to every site, and say this again"
        )
    files = SiteFiles(folder / name)
    if is_new := not files.home.exists():
        address, seen = server_settings.read(server).address, _look(environment)[0]
        settings = templates.site(name, address, len(agreed.clients_of(name)), environment or world.DEFAULT, seen.kind)
        with _renamed_when_done(files.home) as new:
            line = _fill(SiteFiles(new), server, name, settings)
    else:
        line = _hand_out(files, server, name)
    revoked = _revoke(server, name)
    _register(server, name, line)
    return Added(files, is_new, revoked)


def renew(folder: Path, days: int = certificates.SERVER_DAYS) -> datetime:
    """A new certificate and key for the server, for the host in server.toml; returns until when it is valid."""
    folder = Path(os.path.abspath(folder))
    server = _server_of(folder)
    host = server_settings.read(server).address.host
    return certificates.valid_until(certificates.issue_server(AuthorityFiles(folder / "ca"), server, host, days))


def parse_sites(sites: Sequence[str], clients: int = 1) -> dict[str, int]:
    """Names and numbers of clients, in this order."""
    counts: dict[str, int] = {}
    for item in sites:
        name, colon, number = item.strip().partition(":")
        agreement.check_name(name, list(counts), "--sites")
        if colon and not (number.isascii() and number.isdecimal() and 1 <= int(number[:9]) <= MOST_CLIENTS):
            raise FileError(
                f"--sites has {item!r:.80}, expected a number of clients after the colon, {MOST_CLIENTS} at most: "
                f"--sites {name}:3"
            )
        counts[name] = int(number) if colon else clients
    return counts


def _refuse_existing(folder: Path) -> None:
    if folder == Path.cwd() or not folder.name.isprintable() or not folder.name:
        raise FileError(f"{str(folder)!r} cannot be the folder; give the name of a new one, such as wards")
    if folder.is_dir() and (folder / "server").is_dir():
        raise FileError(f"{folder} is a federation already; choose another folder, or add a site with --add SITE")
    if folder.is_dir() and any(folder.iterdir()):
        raise FileError(f"{folder} is not empty; choose another name or an empty folder")
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; choose another name or move it away")


def _server_of(folder: Path) -> ServerFiles:
    server = ServerFiles(folder / "server")
    if not server.agreement.is_file():
        raise FileError(
            f"{server.agreement} is not there, so {folder} is no federation; give the folder that "
            "`fedrl federation init DIR --sites …` made"
        )
    return server


def _look(environment: str | None) -> tuple[World, str]:
    """The environment from outside; if it cannot be opened here, CartPole and the reason."""
    if environment is None:
        return world.look(world.DEFAULT), ""
    try:
        return world.look(environment), ""
    except Exception as error:  # whatever somebody else's code raises
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return world.look(world.DEFAULT), f"{environment} cannot be opened here ({why})"


def _fill(files: SiteFiles, server: ServerFiles, name: str, settings: str) -> str:
    """Write everything in the new folder of a site; returns its public key."""
    write_public(files.settings, settings.encode())
    write_private(files.secret, f"{secrets.token_hex(32)}\n".encode())
    return _hand_out(files, server, name)


def _hand_out(files: SiteFiles, server: ServerFiles, name: str) -> str:
    """What a site has from the server, and a new key pair; returns the public key."""
    write_public(files.agreement, server.agreement.read_bytes())
    write_public(files.ca, server.ca.read_bytes())
    return node_keys.create_pair(files.key, files.public_key, name)


def _register(server: ServerFiles, name: str, line: str) -> None:
    server.site_keys.mkdir(mode=0o700, exist_ok=True)
    write_public(server.site_keys / f"{name}.pub", f"{line}\n".encode())


def _revoke(server: ServerFiles, name: str) -> Path | None:
    """Keep the public key that the site has now, if any, among those that Flower must not know any more."""
    current, revoked = server.site_keys / f"{name}.pub", server.site_keys / "revoked"
    if not current.exists():
        return None
    revoked.mkdir(mode=0o700, exist_ok=True)
    line, number = current.read_bytes(), 1
    while (kept := revoked / f"{name}-{number}.pub").exists() and kept.read_bytes() != line:
        number += 1
    write_public(kept, line)
    return kept


@contextmanager
def _renamed_when_done(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder` that takes its name at the end, and disappears after an error."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))  # mode 700
    except OSError as error:
        raise FileError(f"{folder} cannot be made ({error.strerror}); choose a folder where you may write") from error
    try:
        yield new
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new)
        raise
