"""Who is at the other end: a site is known by its key, whatever number or name Flower gives its node."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.organisations.agreement import Agreement
from fedrl.organisations.node_keys import comparable
from fedrl.organisations.tables import FileError


class Seen(NamedTuple):
    """A site's node, as Flower has it."""

    node: int
    activated: str  # when it last connected; a new connection has lost what the node was doing


def read(folder: Path, agreement: Agreement) -> dict[bytes, str]:
    """The site of each public key in `folder` (SITE.pub); other files there are no sites of this federation."""
    keys: dict[bytes, str] = {}
    for site in agreement.sites:
        path = folder / f"{site}.pub"
        if not path.is_file():  # revoked, or not invited yet: it is absent
            continue
        key = comparable(path.read_bytes())
        if key in keys:
            raise FileError(f"{path} is the key of {keys[key]}, too; a key belongs to one site: make a new one")
        keys[key] = site
    return keys


def online(nodes: Iterable[Any], keys: dict[bytes, str]) -> dict[str, Seen]:
    """The sites that Flower says are online. A node without a key, or with one that nobody has, is nobody."""
    seen: dict[str, Seen] = {}
    for node in nodes:
        site = keys.get(comparable(node.public_key)) if node.public_key else None
        if site is not None and node.status == "online":
            seen[site] = Seen(node.node_id, node.last_activated_at)
    return seen
