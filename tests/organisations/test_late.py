"""Late answers: dropped, or taken with their staleness and weighted down; whatever comes, each client counts once."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from flwr.app import ConfigRecord, RecordDict
from support.organisations import CLIFF, Clock, Folders, UnreliableGrid

from fedrl.engines import wire
from fedrl.organisations import agreement, executor, server_app, sites, trips
from fedrl.organisations.answers import MOST_WORDS, Asked
from fedrl.organisations.executor import discount_of
from fedrl.organisations.sites import Part
from fedrl.organisations.status_file import StatusFile
from fedrl.organisations.tables import FileError
from fedrl.records import log

RULES = {"quorum": 1, "deadline": 60.0, "patience": 0.0, "largest_norm": 1e9}
AGREED = {
    "name": "cliffs", "rounds": 4, "seed": 5, "max_episode_steps": 12, "episodes": 1, "spaces": CLIFF,
    "sites": {"a": 2, "b": 1}, "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
}  # fmt: skip
CLIFF_WALKING = "CliffWalking-v1"


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (trips, sites):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    made = Folders(tmp_path_factory.mktemp("sites"), AGREED, {"a": CLIFF_WALKING, "b": CLIFF_WALKING}, 5)
    return {name: made.worker(name) for name in made.homes}


def play(path, workers, late, twist, steps=4):
    """The rows of a run; `twist` is given the grid."""
    agreed = AGREED | {"rounds": steps, "rules": RULES | {"late": late}}
    made = Folders(path, agreed, {"a": CLIFF_WALKING, "b": CLIFF_WALKING}, 5)
    for worker in workers.values():
        worker.agreement, worker.work.agreement, worker.last = made.agreement, made.agreement, None
    grid = UnreliableGrid(made, workers)
    grid.twist = twist(grid)
    server_app.play(made.server, made.agreement, grid, 7, StatusFile(made.server.status))
    return log.read(made.server.run / "log.jsonl"), grid


def asked_round(message) -> int:
    items = json.loads(message.content.config_records["asked"]["items"])
    return next((item["address"][1] + 1 for item in items if item["exchange"] == "train"), 0)


def theta_in(records) -> np.ndarray:
    """The one large array of a message or an answer."""
    found = [array for record in records for path, array in record.items() if tuple(array.shape) == (48, 4)]
    return wire.unpack(found[-1].data)[0][0]


def held_back(change=lambda answer: answer):
    """Site b's answer to round 2 comes in round 3."""

    def twist(grid):
        held = []

        def of_b(message, answer):
            return held.append((message, change(answer))) if asked_round(message) == 2 else answer

        def of_a(message, answer):
            if asked_round(message) == 3 and held:
                grid.deliver(*held.pop())
            return answer

        return {"a": of_a, "b": of_b}

    return twist


def stale(rows):
    return [row.get("train/stale") for row in rows[1:]]


def answered(rows):
    """How many of the three clients each round's training has."""
    return [3 - sum(one["exchange"] == "train" for one in row.get("left_out", [])) for row in rows[1:]]


def why(rows):
    return {
        (row["round"], one["exchange"]): one["why"]
        for row in rows
        for one in row.get("left_out", [])
        if one["client"] == 2
    }


@pytest.mark.parametrize("late", ["inverse", "fedrl.channels.staleness:inverse"])
def test_weights_by_hand(late, workers, clock, tmp_path):
    """1/3, 1/3 and 1/3 · 1/2 make 0.4, 0.4 and 0.2."""
    rows, grid = play(tmp_path, workers, late, held_back())
    assert stale(rows) == [0, 0, 1, 0]
    assert answered(rows) == [3, 2, 3, 3]
    assert set(why(rows)) == {(1, "measure"), (2, "train"), (2, "measure")}  # only training may be late

    def sent(number):
        asked = next(m for m in grid.sent if m.metadata.message_type == "train" and asked_round(m) == number)
        records = asked.content.array_records
        return theta_in([records[max(records)]])  # of the evaluation before it and the training, the training

    by_question = {m.metadata.message_id: m for m in grid.sent}
    uploads = {}
    for answer in grid.pulled:
        question = by_question[answer.metadata.reply_to_message_id]
        if question.metadata.message_type == "train" and asked_round(question):
            for name, record in answer.content.array_records.items():
                if name.startswith(max(question.content.array_records)):
                    uploads[asked_round(question), int(name.split("/")[1])] = theta_in([record])
    before, after = sent(3), sent(4)
    mean = 0.4 * uploads[3, 0] + 0.4 * uploads[3, 1] + 0.2 * uploads[2, 2]
    assert np.abs(uploads[2, 2]).max() > 0
    deltas = not np.allclose(mean, after, atol=1e-6)
    np.testing.assert_allclose(before + mean if deltas else mean, after, atol=1e-6)


def test_dropped(workers, clock, tmp_path):
    """By default the answer is never even fetched."""
    rows, grid = play(tmp_path, workers, "drop", held_back())
    assert stale(rows) == 4 * [None]
    assert answered(rows) == [3, 2, 3, 3]
    assert set(why(rows)) == {(1, "measure"), (2, "train")}
    late = [
        m.metadata.message_id
        for m in grid.sent
        if m.metadata.dst_node_id == 12 and m.metadata.message_type == "train" and asked_round(m) == 2
    ]
    assert not {m.metadata.reply_to_message_id for m in grid.pulled} & set(late)


def test_a_late_fault_is_nothing(workers, clock, tmp_path):
    """The client is as it was: left out because it is late, until it answers."""

    def failed(answer):
        kept = {name: record for name, record in answer.content.items() if name in ("answer", "failures")}
        kept["failures"] = ConfigRecord({"list": '[[0, 2, "raised", "no"], [1, 2, "raised", "no"]]'})
        answer.content = RecordDict(kept)
        return answer

    rows, _ = play(tmp_path, workers, "inverse", held_back(failed))
    assert stale(rows) == [0, 0, 0, 0]
    assert "did not answer by the deadline" in why(rows)[3, "train"]


def test_the_newer_answer_counts(workers, clock, tmp_path):
    """The late answer comes, and then that to this round's question, while the others still work: one contribution."""

    def twist(grid):
        both = held_back()(grid)
        inner = both["a"]

        def of_a(message, answer):
            inner(message, answer)
            if asked_round(message) == 3:
                clock.at.append((clock.now + 5, lambda: grid.deliver(message, answer)))
                return None
            return answer

        return both | {"a": of_a}

    rows, grid = play(tmp_path, workers, "inverse", twist)
    assert stale(rows) == [0, 0, 0, 0]
    assert answered(rows) == [3, 2, 3, 3]
    pulled = [m.metadata.reply_to_message_id for m in grid.pulled]
    assert len(pulled) == len(set(pulled))


def test_functions_that_weigh_nothing(tmp_path):
    def parsed(late):
        import tomli_w

        return agreement.parse(tomli_w.dumps(AGREED | {"rules": RULES | {"late": late}}))

    assert discount_of(parsed("drop")) is None
    with pytest.raises(FileError, match="late = 'fedrl.channels.staleness:invers' cannot be imported"):
        discount_of(parsed("fedrl.channels.staleness:invers"))
    with pytest.raises(
        FileError, match=r"makes .* of the staleness \[0, 1, 2\]; it must give a factor for each, and 1 for 0"
    ):
        discount_of(parsed("jax.numpy:sum"))
    with pytest.raises(FileError, match=r"makes \[0.0, 1.0, 2.0\] of the staleness"):
        discount_of(parsed("jax.numpy:abs"))


def test_messages_that_flower_cannot_carry(monkeypatch):
    """Arrays are cut into pieces, so only their sum counts; words are not."""
    item = Asked("train", ("round", 0, "train"), [0], [0], [0], 1, ())
    monkeypatch.setattr(executor, "MOST_BYTES", 100)
    executor._check_size("a", [Part(0, item, {"x": (None, bytes(100))})])
    with pytest.raises(
        FileError, match=r"the message to site a has 0.0 GB, Flower carries at most 0.0; federate fewer parameters"
    ):
        executor._check_size("a", [Part(0, item, {"x": (None, bytes(60)), "y": (None, bytes(60))})])
    most = list(range(MOST_WORDS // 10))
    with pytest.raises(
        FileError, match=r"site a lists its clients in \d+.\d MB, Flower carries at most 4.2 that are not arrays; ask"
    ):
        executor._check_size("a", [Part(0, item._replace(slots=most, clients=most, counted=most), {})])
