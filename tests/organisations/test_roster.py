"""A site is known by its key."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.organisations import CLIFF, Folders

from fedrl.organisations import roster
from fedrl.organisations.node_keys import comparable, create_pair
from fedrl.organisations.roster import Seen
from fedrl.organisations.tables import FileError

AGREED = {"name": "cliffs", "rounds": 1, "spaces": CLIFF, "sites": {"a": 1, "b": 1}, "method": {"name": "pavg"}}


@pytest.fixture
def made(tmp_path):
    return Folders(tmp_path, AGREED, dict.fromkeys("ab", "CliffWalking-v1"))


def node(key: bytes, number: int = 3, **changes) -> SimpleNamespace:
    fields = {"node_id": number, "public_key": key, "status": "online", "last_activated_at": "now", "name": "a"}
    return SimpleNamespace(**fields | changes)


def test_the_key_counts_and_not_the_name(made):
    """Flower reports PEM, the folder has OpenSSH's line."""
    keys = roster.read(made.server.site_keys, made.agreement)
    (key,) = [pem for pem, site in keys.items() if site == "b"]
    assert roster.online([node(key)], keys) == {"b": Seen(3, "now")}


def test_nobody(made, tmp_path):
    keys = roster.read(made.server.site_keys, made.agreement)
    create_pair(tmp_path / "own.key", tmp_path / "own.pub", "a")
    strange = comparable((tmp_path / "own.pub").read_bytes())
    gone = node(next(iter(keys)), status="offline")
    assert roster.online([node(strange), node(b""), gone], keys) == {}


def test_a_site_without_a_key_is_left_out(made):
    (made.server.site_keys / "a.pub").unlink()
    assert list(roster.read(made.server.site_keys, made.agreement).values()) == ["b"]


def test_one_key_for_two(made):
    folder = made.server.site_keys
    (folder / "b.pub").write_bytes((folder / "a.pub").read_bytes())
    with pytest.raises(FileError, match=r"b.pub is the key of a, too; a key belongs to one site: make a new one"):
        roster.read(folder, made.agreement)
