"""What `serve` shows of a run, from the files that the process that trains writes."""

import io
import json
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from rich.console import Console
from support.organisations import CLIFF, Folders

from fedrl.organisations import follow
from fedrl.organisations.follow import End, Follower
from fedrl.organisations.status_file import FINISHED, STOPPED, StatusFile
from fedrl.organisations.superlink import RunState
from fedrl.records import lock, progress_display

AGREED = {
    "name": "cliffs", "rounds": 4, "spaces": CLIFF, "sites": {"a": 2, "b": 1}, "rules": {"deadline": 45.0},
    "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
}  # fmt: skip


class Link(NamedTuple):
    """Stands for the SuperLink, which is asked about a run whose process is not there."""

    is_over: RunState

    def state(self, run: str) -> RunState:
        return self.is_over


LINK = Link(RunState(False, ""))


class Server:
    """The process that trains, as its files say; it may be started again."""

    def __init__(self, made: Folders):
        self.made, self.files = made, made.server
        self.files.state.mkdir()
        self.files.run.mkdir()
        self.console = Console(file=io.StringIO(), width=80)

    def start(self, follower: Follower) -> None:
        follower.begin("7")
        self.held = lock.hold(self.files.state)
        self.status = StatusFile(self.files.status)
        self.status.begin(7, 0, 4, {"a": [0, 1], "b": [2]})

    def die(self) -> None:
        self.held.release()

    def say(self, follower: Follower) -> list[str]:
        """The new lines, without those that only say how long it takes."""
        self.status.save(force=True)
        before = len(self.lines())
        assert follower.look(LINK) is None
        return [line for line in self.lines()[before:] if "…" not in line]

    def lines(self) -> list[str]:
        return self.console.file.getvalue().splitlines()


@pytest.fixture
def server(tmp_path, monkeypatch) -> Server:
    monkeypatch.setattr(progress_display, "PAUSE", 0.02)
    return Server(Folders(tmp_path, AGREED, {"a": "CliffWalking-v1", "b": "CliffWalking-v1"}))


@pytest.fixture
def follower(server) -> Iterator[Follower]:
    with Follower(server.files, server.made.agreement, server.console) as follower:
        server.start(follower)
        yield follower


def repeated(server: Server) -> str:
    """What it says next of what it waits for."""
    before, end = len(server.lines()), time.monotonic() + 30
    while len(server.lines()) < before + 2:  # one may have been said before the last look
        assert time.monotonic() < end
        time.sleep(0.01)
    return server.lines()[before + 1].rpartition(" ")[0]


def test_it_says_which_sites_have_not_come_yet(server, follower):
    assert repeated(server) == "waiting for a, b, up to the deadline of 45 s …"
    server.status.online("b")
    assert server.say(follower) == ["site b: online"]
    assert repeated(server) == "waiting for a, up to the deadline of 45 s …"
    server.status.refused("a", "site a has jax 0.1")
    assert server.say(follower) == ["site a: refused: site a has jax 0.1"]
    assert repeated(server) == "the sites compile (once) and make the first evaluation …"


def test_it_says_that_the_quorum_is_waited_for(server, follower):
    """The deadline is over then."""
    server.status.waiting("fewer clients than the quorum have answered; waiting for a, b")
    assert server.say(follower) == ["fewer clients than the quorum have answered; waiting for a, b"]
    assert repeated(server) == "waiting for the quorum, up to 3600 s …"
    server.status.waiting("")
    server.say(follower)
    assert repeated(server) == "waiting for a, b, up to the deadline of 45 s …"


def test_a_refused_site_is_not_waited_for_and_one_that_went_is(server, follower):
    server.status.online("a")
    server.status.online("b")
    server.say(follower)
    server.status.offline("a", "its node is not connected")
    server.say(follower)
    assert repeated(server) == "waiting for a, up to the deadline of 45 s …"


def test_a_site_without_a_key_is_not_waited_for(server):
    (server.files.site_keys / "a.pub").unlink()
    with Follower(server.files, server.made.agreement, server.console) as follower:
        assert server.lines() == ["starting Flower's SuperLink …"]
        server.start(follower)
        server.say(follower)
        assert repeated(server) == "waiting for b, up to the deadline of 45 s …"


def test_after_a_restart_no_site_was_never_seen(server, follower):
    """That is how a status begins; of a site that comes back it is said that it is online."""
    server.status.online("a")
    assert server.say(follower) == ["site a: online"]
    server.die()
    assert follower.look(LINK) == End(known=False)
    server.start(follower)
    assert server.say(follower) == []
    assert repeated(server) == "waiting for a, b, up to the deadline of 45 s …"
    server.status.online("a")
    assert server.say(follower) == ["site a: online"]


def test_rounds_who_was_left_out_and_the_end(server, follower):
    server.status.left_out(1, "train", "b", [2], "no answer within 45 s")
    row = {"round": 1, "env_steps": 8, "return": -3.0}
    (server.files.run / "log.jsonl").write_text(json.dumps(row) + "\n")
    assert server.say(follower) == [
        "cliffs: round 1/4, return -3.000",
        "round 1, train: b (client 2) was left out: no answer within 45 s",
    ]
    assert server.say(follower) == []
    server.status.waiting("fewer clients than the quorum have answered; waiting for b")
    assert server.say(follower) == ["fewer clients than the quorum have answered; waiting for b"]
    server.status.finish(STOPPED, "the quorum was not there")
    assert follower.look(LINK) == End(False, why="the quorum was not there")
    server.status.finish(FINISHED)
    assert follower.look(LINK) == End(True)


def test_the_same_reason_is_said_once(server, follower):
    """Of a site that is refused it would otherwise be said in every round, at length."""
    server.status.refused("b", "it has jax 0.1")
    server.status.left_out(1, "train", "b", [2], "its site takes no part (it has jax 0.1)")
    assert server.say(follower) == [
        "site b: refused: it has jax 0.1",
        "round 1, train: b (client 2) was left out: its site takes no part (it has jax 0.1)",
    ]
    server.status.left_out(2, "train", "b", [2], "its site takes no part (it has jax 0.1)")
    server.status.left_out(2, "train", "a", [0, 1], "no answer within 45 s")
    assert server.say(follower) == [
        "round 2, train: b (client 2) was left out again",
        "round 2, train: a (clients 0-1) was left out: no answer within 45 s",
    ]


def test_rows_and_a_status_of_an_earlier_start_are_not_news(server):
    (server.files.run / "log.jsonl").write_text(json.dumps({"round": 1, "env_steps": 8, "return": -3.0}) + "\n")
    StatusFile(server.files.status).finish(STOPPED, "long ago")
    with Follower(server.files, server.made.agreement, server.console) as follower:
        server.start(follower)
        assert server.say(follower) == []
        assert follower.rounds == 1


def test_a_run_that_stops_before_it_knows_its_sites(server):
    with Follower(server.files, server.made.agreement, server.console) as follower:
        follower.begin("7")
        StatusFile(server.files.status).finish(STOPPED, "pavg() is missing local_steps")
        assert follower.look(LINK) == End(False, why="pavg() is missing local_steps")


def test_a_run_that_never_begins(server, monkeypatch):
    monkeypatch.setattr(follow, "ASK_FLOWER", 0.0)
    with Follower(server.files, server.made.agreement, server.console) as follower:
        follower.begin("7")
        assert follower.look(LINK) is None
        assert follower.look(Link(RunState(True, "failed: no module"))) == End(known=False)
    assert "the run did not begin (failed: no module); trying again" in server.lines()
