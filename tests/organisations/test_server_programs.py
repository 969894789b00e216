"""What the server does when its SuperLink dies before it has been given the run, and with keys that Flower would refuse."""

from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from rich.console import Console

from fedrl.organisations import agreement, init, server_programs
from fedrl.organisations.addresses import Address
from fedrl.organisations.follow import End
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.server_programs import ServeError, Server, site_keys
from fedrl.organisations.server_settings import ServerSettings


class Link:
    """Refuses its first connections."""

    def __init__(self, refusals: int):
        self.refusals, self.submitted = refusals, 0

    def stop_all(self) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise httpx.ConnectError("refused")

    def submit(self) -> str:
        self.submitted += 1
        return "7"


def server(tmp_path, monkeypatch, link: Link, *, running: bool) -> Server:
    address = Address("127.0.0.1", 1)
    children = SimpleNamespace(running=lambda name: running)
    one = Server(ServerFiles(tmp_path), ServerSettings(address, address, True), children, tmp_path, Console())
    monkeypatch.setattr(server_programs, "PAUSE", 0.0)
    monkeypatch.setattr(one, "_running_link", lambda agreement: link)
    monkeypatch.setattr(one, "_watch", lambda link, follower: End(True))
    return one


def test_a_superlink_that_died_just_now_is_started_again(tmp_path, monkeypatch):
    link, begun = Link(2), []
    follower = SimpleNamespace(rounds=0, begin=begun.append)
    assert server(tmp_path, monkeypatch, link, running=False).play(None, follower) == End(True)
    assert (begun, link.submitted) == (["7"], 1)


def test_one_that_runs_and_refuses_is_an_error(tmp_path, monkeypatch):
    follower = SimpleNamespace(rounds=0, begin=None)
    with pytest.raises(httpx.ConnectError):
        server(tmp_path, monkeypatch, Link(1), running=True).play(None, follower)


def test_one_that_dies_while_it_starts_is_started_again(tmp_path, monkeypatch):
    refusals = [httpx.ReadError("reset")]
    link, follower = Link(0), SimpleNamespace(rounds=0, begin=lambda run: None)

    def running_link(agreement):
        if refusals:
            raise refusals.pop()
        return link

    one = server(tmp_path, monkeypatch, link, running=False)
    monkeypatch.setattr(one, "_running_link", running_link)
    assert one.play(None, follower) == End(True)


def test_two_sites_with_the_same_key(tmp_path):
    init.create(tmp_path / "wards", ["a", "b"], "localhost:8443")
    files = ServerFiles(tmp_path / "wards/server")
    agreed = agreement.read(files.agreement)
    assert list(site_keys(files, agreed)) == ["a", "b"]
    (files.site_keys / "b.pub").write_bytes((files.site_keys / "a.pub").read_bytes())
    with pytest.raises(
        ServeError, match=r"b\.pub is the key of a, too, .*; copy b's own site\.pub there, or make a new"
    ):
        site_keys(files, agreed)
