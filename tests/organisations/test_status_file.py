"""`status.json`: what happens to a site, written often enough and read strictly."""

import json
import time

import pytest

from fedrl.organisations import status_file
from fedrl.organisations.status_file import (
    FINISHED,
    NEVER_SEEN,
    OFFLINE,
    ONLINE,
    PLAYING,
    REFUSED,
    WAITING,
    StatusError,
    StatusFile,
    read,
)

SITES = {"a": [0, 1], "b": [2]}


@pytest.fixture
def file(tmp_path) -> StatusFile:
    one = StatusFile(tmp_path / "status.json")
    one.begin(7, 0, 10, SITES)
    return one


def written(file: StatusFile) -> status_file.Status:
    file.save(force=True)
    return read(file.path)


def test_a_run_that_begins(file):
    status = written(file)
    assert (status.state, status.run, status.round, status.rounds) == (PLAYING, 7, 0, 10)
    assert {name: (site.clients, site.state, site.answered) for name, site in status.sites.items()} == {
        "a": ([0, 1], NEVER_SEEN, 0),
        "b": ([2], NEVER_SEEN, 0),
    }


def test_what_is_read_is_what_was_written(file):
    file.online("a")
    file.answered("a")
    file.left_out(3, "train", "b", [2], "no answer within 45 s")
    file.exchange(3, "train")
    assert written(file) == file.status


def test_a_site_comes_goes_and_is_refused(file):
    file.offline("a", "its node is not connected")
    assert file.status.sites["a"].state == NEVER_SEEN  # of a site that never came nobody says that it went
    file.refused("a", "it has jax 0.1")
    assert (file.status.sites["a"].state, file.status.sites["a"].why) == (REFUSED, "it has jax 0.1")
    file.offline("a", "its node is not connected")
    assert file.status.sites["a"].state == OFFLINE
    assert file.status.sites["a"].why == "its node is not connected; it was refused before: it has jax 0.1"
    since = file.status.sites["a"].since
    file.offline("a", "its node is not connected")
    assert file.status.sites["a"].since == since
    file.online("a")
    assert file.status.sites["a"].state == ONLINE


def test_why_a_site_was_refused_says_more_than_that_it_was_left_out(file):
    file.refused("b", "it has jax 0.1")
    file.left_out(1, "train", "b", [2], "its site takes no part (it has jax 0.1)")
    assert file.status.sites["b"].why == "it has jax 0.1"
    file.online("b")
    file.left_out(2, "train", "b", [2], "no answer within 45 s")
    assert file.status.sites["b"].why == "no answer within 45 s"


def test_waiting_ends_with_an_empty_reason_or_the_next_exchange(file):
    file.waiting("waiting for b")
    assert (file.status.state, file.status.reason) == (WAITING, "waiting for b")
    file.waiting("")
    assert (file.status.state, file.status.reason) == (PLAYING, "")
    file.waiting("waiting for b")
    file.exchange(2, "train")
    assert (file.status.state, file.status.reason, file.status.round) == (PLAYING, "", 2)


def test_only_the_newest_hundred_are_listed_and_all_are_counted(file):
    for round in range(130):
        file.left_out(round, "train", "b", [2], "late")
    status = written(file)
    assert [entry.round for entry in status.left_out] == list(range(30, 130))
    assert status.sites["b"].left_out == 130


def test_a_run_that_goes_on_keeps_its_counts_up_to_its_round(file):
    file.answered("a")
    for round in (1, 2, 3):
        file.left_out(round, "train", "b", [2], "late")
    file.save(force=True)
    again = StatusFile(file.path)
    again.begin(8, 2, 10, SITES | {"c": [3]})
    assert (again.status.sites["a"].answered, again.status.sites["b"].left_out) == (1, 3)
    assert again.status.sites["c"].answered == 0
    assert again.status.sites["a"].state == NEVER_SEEN
    assert [entry.round for entry in again.status.left_out] == [1, 2]
    again.begin(9, 0, 10, SITES)  # another run
    assert again.status.sites["a"].answered == 0
    assert again.status.left_out == []


def test_it_is_written_at_most_once_a_second_and_at_least_every_ten(file, monkeypatch):
    now = [time.monotonic()]
    monkeypatch.setattr(status_file.time, "monotonic", lambda: now[0])
    file.save(force=True)
    file.online("a")
    assert read(file.path).sites["a"].state == NEVER_SEEN
    now[0] += 1.1
    file.save()
    assert read(file.path).sites["a"].state == ONLINE
    file.path.unlink()
    now[0] += 9.0  # nothing has changed
    file.save()
    assert not file.path.exists()
    now[0] += 1.1
    file.save()
    assert file.path.exists()


def test_the_end_is_written_at_once(file):
    file.finish(FINISHED)
    assert read(file.path).state == FINISHED


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "is damaged or was written by another version of fedrl"),
        (b"[]", "is damaged"),
        (b"\xff", "is damaged"),
        (b'{"sites": {}, "left_out": []}', "is damaged"),
        (b'{"sites": 3, "left_out": []}', "is damaged"),
    ],
)
def test_a_file_that_is_none(tmp_path, content, what):
    path = tmp_path / "status.json"
    path.write_bytes(content)
    with pytest.raises(StatusError, match="a running server writes it anew within 10 s, otherwise delete it") as told:
        read(path)
    assert what in str(told.value)
    fresh = StatusFile(path)  # what was counted before is lost, and nothing else
    fresh.begin(7, 3, 10, SITES)
    assert read(path).round == 3


def test_a_key_of_another_version(file):
    plain = json.loads(file.path.read_bytes())
    for change in ({"more": 1}, {"started": "yesterday"}, {"sites": {"a": {"state": "online"}}}):
        file.path.write_text(json.dumps(plain | change))
        with pytest.raises(StatusError, match="written by another version of fedrl"):
            read(file.path)
