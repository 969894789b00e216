"""What `fedrl federation status` prints."""

import json
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.command_line import said

from fedrl.organisations import init, status
from fedrl.organisations.status_file import FINISHED, STOPPED, StatusFile
from fedrl.records import lock


@pytest.fixture
def home(tmp_path) -> Path:
    init.create(tmp_path / "wards", ["a:2", "b"], "localhost:8443")
    return tmp_path / "wards/server"


@pytest.fixture
def file(home) -> StatusFile:
    one = StatusFile(home / "status.json")
    one.begin(7, 3, 10, {"a": [0, 1], "b": [2]})
    one.exchange(3, "train")
    one.online("a")
    one.answered("a")
    one.left_out(3, "train", "b", [2], "no answer within 45 s")
    one.save(force=True)
    return one


def show(capsys, home: Path) -> list[str]:
    return [line.rstrip() for line in said(capsys, "federation", "status", home).splitlines()]


def columns(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("   ") if cell.strip()]


def test_a_server_that_runs(capsys, home, file):
    held = lock.hold(home)
    lines = show(capsys, home)
    held.release()
    assert lines[0].startswith("playing   round 3 of 10, train   begun 0 s ago")
    assert lines[1] == "written 0 s ago"
    assert columns(lines[3]) == ["site", "clients", "state", "for", "last answer", "answers", "left out", "why"]
    assert columns(lines[4]) == ["a", "0-1", "online", "0 s", "0 s ago", "1", "0"]
    assert columns(lines[5]) == ["b", "2", "never seen", "0 s", "–", "0", "1", "no answer within 45 s"]
    assert lines[-2:] == ["Left out:", "  round 3, train, 0 s ago: b (client 2): no answer within 45 s"]


def test_a_server_that_was_killed(capsys, home, file):
    lines = show(capsys, home)
    assert lines[1] == (
        f"not running now: the server was stopped or killed (written 0 s ago); start it with: fedrl federation serve {home}"
    )
    assert columns(lines[4])[2] == "was online"


def test_a_server_that_hangs(capsys, home, file, monkeypatch):
    monkeypatch.setattr(status.time, "time", lambda now=time.time(): now + 3700)
    held = lock.hold(home)
    lines = show(capsys, home)
    held.release()
    assert lines[1] == (
        f"not written for 1 h 1 min, though the server is there: it is starting, or hangs; see {home / 'logs'}"
    )


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [(FINISHED, "", "written 0 s ago"), (STOPPED, "the quorum was not there", "because: the quorum was not there")],
)
def test_a_run_that_is_over(capsys, home, file, state, reason, words):
    file.finish(state, reason)
    lines = show(capsys, home)
    assert lines[0].startswith(f"{state}   round 3 of 10")
    assert lines[1] == words


def test_what_is_waited_for(capsys, home, file):
    file.waiting("fewer clients than the quorum have answered; waiting for b")
    file.save(force=True)
    assert show(capsys, home)[1] == "fewer clients than the quorum have answered; waiting for b"


def test_only_the_newest_are_listed(capsys, home, file):
    for round in range(4, 24):
        file.left_out(round, "train", "b", [2], "late")
    file.save(force=True)
    lines = show(capsys, home)
    at = lines.index("Left out, 10 of 21, the newest first:")
    assert [line.split(",")[0].strip() for line in lines[at + 1 :]] == [f"round {round}" for round in range(23, 13, -1)]


def test_nobody_was_left_out(capsys, home):
    StatusFile(home / "status.json").begin(7, 0, 10, {"a": [0, 1], "b": [2]})
    assert show(capsys, home)[-1] == "Nobody was left out."


def test_json_says_whether_it_runs(capsys, home, file):
    plain = json.loads(said(capsys, "federation", "status", home, "--json"))
    assert (plain["running"], plain["state"], plain["sites"]["a"]["answered"]) == (False, "playing", 1)
    held = lock.hold(home)
    assert json.loads(said(capsys, "federation", "status", home, "--json"))["running"] is True
    held.release()


def test_it_leaves_the_folder_as_it_is(capsys, home):
    """In a folder that nobody has served there is no lock, and there is none after it."""
    before = sorted(path.name for path in home.iterdir())
    show(capsys, home)
    assert sorted(path.name for path in home.iterdir()) == before


def test_a_server_that_has_only_begun(capsys, home):
    held = lock.hold(home)
    text = said(capsys, "federation", "status", home)
    held.release()
    assert text == "the server is starting and has no status yet; look again in a minute\n"


def test_a_damaged_file_is_a_sentence(capsys, home):
    (home / "status.json").write_bytes(b"{")
    text = said(capsys, "federation", "status", home, code=2)
    assert "is damaged or was written by another version of fedrl; a running server writes it anew" in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (7500, "2 h 5 min"), (86400, "1 day"),
     (3 * 86400, "3 days")],
)  # fmt: skip
def test_in_words(seconds, words):
    assert status.in_words(seconds) == words


def test_clients_in_words():
    assert status.clients_in_words([5, 1, 0, 2]) == "0-2, 5"
    assert status.clients_in_words([]) == ""
