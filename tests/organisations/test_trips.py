"""Sites that lie, are silent, vanish and return: left out of the round, named, and asked again; the others go on."""

import json
import sys

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from flwr.app import ConfigRecord, Error, Message, RecordDict
from safetensors.numpy import load_file
from support.lies import LIES, asked_round
from support.organisations import CLIFF, Clock, Folders, UnreliableGrid

from fedrl.engines.versions import about
from fedrl.environments.errors import EnvironmentFailed
from fedrl.organisations import server_app, sites, trips
from fedrl.organisations.status_file import FINISHED, StatusFile, read
from fedrl.organisations.tables import FileError
from fedrl.records import log

RULES = {"quorum": 2, "deadline": 60.0, "patience": 200.0, "largest_number": 1e6, "largest_norm": 1e9}
AGREED = {
    "name": "cliffs", "rounds": 4, "seed": 5, "max_episode_steps": 12, "episodes": 1, "spaces": CLIFF, "rules": RULES,
    "sites": {"a": 2, "b": 1}, "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
}  # fmt: skip
CLIFF_WALKING = "CliffWalking-v1"
REPLAY = "site b: it answers another token (a replay, or a node of another run)"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    for module in (trips, sites):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Whose compiled programs all federations here share; they keep no memory."""
    made = Folders(tmp_path_factory.mktemp("sites"), AGREED, {"a": CLIFF_WALKING, "b": CLIFF_WALKING}, 5)
    return {name: made.worker(name) for name in made.homes}


def federation(path, workers, **changes):
    made = Folders(path, AGREED | changes, {"a": CLIFF_WALKING, "b": CLIFF_WALKING}, 5)
    for worker in workers.values():
        worker.agreement, worker.work.agreement = made.agreement, made.agreement
    return made, UnreliableGrid(made, workers)


def play(made, grid):
    status = StatusFile(made.server.status)
    server_app.play(made.server, made.agreement, grid, 7, status)
    status.finish(FINISHED)
    return end(made)


def end(made):
    """All that must be equal at the end of two runs."""
    rows = [
        {k: x for k, x in row.items() if k not in ("seconds", "left_out")}
        for row in log.read(made.server.run / "log.jsonl")
    ]
    return json.dumps(rows), {k: x.tobytes() for k, x in load_file(made.server.run / "policy.safetensors").items()}


def left_out(made):
    """By round: who was left out of which exchange, and why."""
    rows = log.read(made.server.run / "log.jsonl")
    return {
        row["round"]: {(o["client"], o["exchange"]): o["why"] for o in row["left_out"]}
        for row in rows
        if "left_out" in row
    }


def test_lies(workers, tmp_path):
    """A round for each: never averaged, named with the reason. The others go on, as without the client."""
    rounds = len(LIES) + 1
    made, grid = federation(tmp_path / "lies", workers, rounds=rounds)
    lies = list(LIES.values())

    def lie(message, answer):
        number = asked_round(message)
        return answer if number is None or number > len(lies) else lies[number - 1][0](message, answer)

    grid.twist["b"] = lie
    there = play(made, grid)
    reasons = left_out(made)
    for number, (name, (_, reason)) in enumerate(LIES.items(), start=1):
        assert reason in reasons[number][2, "train"], (name, reasons[number])
    assert not [why for of in reasons.values() for client, _ in of if client != 2 for why in of.values()]
    assert rounds not in reasons or (2, "train") not in reasons[rounds]

    made, grid = federation(tmp_path / "raises", workers, rounds=rounds)
    measured = {n for n, of in reasons.items() if (2, "measure") in of}

    def fail(message, answer):
        """Whatever the lie spoiled could not be done."""
        number = asked_round(message)
        if number is None or number > len(lies):
            return answer
        items = json.loads(message.content.config_records["asked"]["items"])
        spoiled = [i for i, item in enumerate(items) if item["exchange"] == "train" or number - 1 in measured]
        kept = {k: x for k, x in answer.content.items() if not k[0].isdigit() or int(k[0]) not in spoiled}
        kept["failures"] = ConfigRecord({"list": json.dumps([[place, 2, "raised", "could not"] for place in spoiled])})
        answer.content = RecordDict(kept)
        return answer

    grid.twist["b"] = fail
    assert play(made, grid) == there
    assert left_out(made)[1][2, "train"] == "it raised an error (site b: could not)"
    assert len(read(made.server.status).left_out) >= len(lies)


def test_replayed_and_doubled(workers, tmp_path):
    """An old answer once more, and every answer twice: the old one is refused, the second of two is nobody's."""
    made, grid = federation(tmp_path, workers)
    answers = []

    def replay(message, answer):
        answers.append(answer)
        if asked_round(message) == 3:
            again = Message(answers[-2].content, reply_to=message)
            return again
        return answer

    grid.twist["b"] = replay
    doubling = grid.pull_messages
    grid.pull_messages = lambda names: 2 * list(doubling(names))
    play(made, grid)
    assert left_out(made) == {
        round: {(2, exchange): f"its answer does not belong to the question ({REPLAY})"}
        for round, exchange in ((2, "measure"), (3, "train"))
    }  # fmt: skip


def test_silent_then_back(workers, tmp_path, clock):
    """Left out at the deadline, not waited for until it has said who it is, and then asked again."""
    made, grid = federation(tmp_path, workers, rounds=6)
    grid.twist["b"] = lambda message, answer: None if asked_round(message) in (2, 3) else answer
    begun = clock.now
    play(made, grid)
    assert left_out(made)[2][2, "train"] == "it did not answer by the deadline (site b: no answer within 60 s)"
    assert set(left_out(made)) == {1, 2, 3}  # of round 1 the evaluation, which travels with the training of round 2
    assert 120 < clock.now - begun < 130
    status = read(made.server.status)
    assert status.sites["b"].state == "online"
    assert status.sites["b"].left_out == 4


def test_gone_and_back(workers, tmp_path, clock):
    """A site that is not there at first, and one that connects anew in the middle of its work: asked again, counted once."""
    made, grid = federation(tmp_path, workers)
    reference, whole = federation(tmp_path / "whole", workers)
    expected = play(reference, whole)
    made, grid = federation(tmp_path / "torn", workers)
    grid.offline.add("b")
    clock.at.append((clock.now + 30, lambda: grid.connect_anew("b")))
    torn = []

    def tear(message, answer):
        if asked_round(message) == 2 and not torn:
            torn.append(message)
            clock.at.append((clock.now + 10, lambda: grid.connect_anew("b")))
            clock.at.append((clock.now + 20, lambda: grid.deliver(message, answer)))  # of the lost connection
            return None
        return answer

    grid.twist["b"] = tear
    assert play(made, grid) == expected
    assert torn
    assert left_out(made) == {}
    asked = [asked_round(m) for m in grid.sent if m.metadata.dst_node_id == 12 and m.metadata.message_type == "train"]
    assert asked == [None, 1, 2, 2, 3, 4, None]


def test_lost_work(workers, tmp_path):
    """Flower says that the work was lost: asked again, three times."""
    made, grid = federation(tmp_path, workers, rounds=2)
    codes = iter([3, 5, None, 8, 8, 8])

    def lose(message, answer):
        code = next(codes, None) if asked_round(message) else None
        return Message(Error(code, ""), reply_to=message) if code else answer

    grid.twist["b"] = lose
    play(made, grid)
    why = "its worker died (site b: its work was lost 3 times in a row; its own log may say why)"
    assert left_out(made) == {1: {(2, "measure"): why}, 2: {(2, "train"): why}}


FAILS = """
import pathlib
import gymnasium as gym

class Ward(gym.Wrapper):
    def step(self, action):
        if (pathlib.Path(__file__).parent / "closed").exists():
            raise RuntimeError("the ward is closed")
        return self.env.step(action)

def make():
    return Ward(gym.make("CliffWalking-v1"))
"""


def test_a_client_that_failed_is_tried_again_when_it_is_asked_again(workers, tmp_path, clock, monkeypatch):
    """Its site may have mended the environment meanwhile; the failure is not what it remembers as its answer."""
    rules = {"rules": RULES | {"quorum": 3}}
    expected = play(*federation(tmp_path / "whole", workers, **rules))
    monkeypatch.setattr(sys, "path", list(sys.path))
    made = Folders(tmp_path / "fails", AGREED | rules, {"a": CLIFF_WALKING, "b": "ward_of_trips:make"}, 5)
    (made.homes["b"] / "ward_of_trips.py").write_text(FAILS)
    (made.homes["b"] / "closed").touch()
    grid, status, reasons = UnreliableGrid(made, {n: made.worker(n) for n in "ab"}), StatusFile(made.server.status), []
    grid.twist["a"] = lambda message, answer: None if message.metadata.message_type == "train" else answer
    clock.at.append(
        (clock.now + 150, lambda: (reasons.append(status.status.reason), grid.twist.clear(), grid.connect_anew("a")))
    )
    with pytest.raises(
        EnvironmentFailed, match=r"client 2: it raised an error \(site b: client 2: its environment failed"
    ):
        server_app.play(made.server, made.agreement, grid, 7, status)
    assert reasons == ["fewer clients than the quorum have answered; waiting for a; no good answer from b"]
    (made.homes["b"] / "closed").unlink()
    assert play(made, grid) == expected


def test_below_the_quorum(workers, tmp_path, clock):
    """Wait up to the patience, then stop with a sentence; resumed, the run ends as if nothing had been."""
    rules = {"rules": RULES | {"quorum": 3}}
    made, grid = federation(tmp_path / "whole", workers, **rules)
    expected = play(made, grid)
    made, grid = federation(tmp_path / "stops", workers, **rules)
    grid.twist["b"] = lambda message, answer: None if asked_round(message) == 3 else answer
    begun = clock.now
    with pytest.raises(
        EnvironmentFailed, match="did not answer by the deadline .*2 of 3 clients are left, the quorum is 3; the"
    ):
        play(made, grid)
    assert 200 <= clock.now - begun < 210
    assert log.read(made.server.run / "log.jsonl")[-1]["round"] == 1  # its evaluation is in the trip of round 3
    grid.twist.clear()
    assert play(made, grid) == expected

    made, grid = federation(tmp_path / "waits", workers, **rules)
    grid.twist["b"] = lambda message, answer: None if asked_round(message) == 3 else answer
    clock.at.append((clock.now + 150, lambda: (grid.twist.clear(), grid.connect_anew("b"))))
    assert play(made, grid) == expected


def test_a_refused_site_that_the_quorum_needs(workers, tmp_path, clock):
    """It may join again as it should be, or its node may find its way: waited for, and nothing is lost."""
    rules = {"rules": RULES | {"quorum": 3}}
    made, grid = federation(tmp_path / "whole", workers, **rules)
    expected = play(made, grid)
    for name, code in {"other clients": None, "cannot start": 2}.items():
        made, grid = federation(tmp_path / name, workers, **rules)
        begun = clock.now
        grid.introduction["b"] = lambda message, answer, code=code: (
            _claiming(answer, clients=7)
            if code is None
            else Message(Error(code, "no fedrl.organisations.node"), reply_to=message)
        )
        returns = [grid.introduction.clear] + ([] if code else [lambda grid=grid: grid.connect_anew("b")])
        clock.at += [(clock.now + 100, action) for action in returns]
        assert play(made, grid) == expected
        assert clock.now - begun > 100
        assert left_out(made) == {}

    made, grid = federation(tmp_path / "never", workers, **rules)
    grid.introduction["b"] = lambda message, answer: _claiming(answer, clients=7)
    with pytest.raises(EnvironmentFailed, match="it says that it has 7 clients, 1 were agreed.*the quorum is 3"):
        play(made, grid)


def test_nobody_waits_for_a_refused_site_above_the_quorum(workers, tmp_path, clock):
    made, grid = federation(tmp_path, workers)
    grid.introduction["b"] = lambda message, answer: _claiming(answer, clients=7)
    begun = clock.now
    play(made, grid)
    assert clock.now - begun < 10
    assert {client for absent in left_out(made).values() for client, _ in absent} == {2}


def _claiming(answer, **words):
    answer.content["answer"] = ConfigRecord(dict(answer.content["answer"]) | words)
    return answer


def test_introductions_that_lie(workers, tmp_path):
    """Whatever a site says of itself, the server goes on, with a sentence."""
    lies = [
        ({"site": "a"}, "it says that it is a; its key is that of b"),
        ({"clients": 7}, "it says that it has 7 clients, 1 were agreed"),
        ({"about": "[" * 100_000}, "its introduction cannot be read (RecursionError)"),
        ({"about": "[]"}, "its introduction cannot be read (AttributeError)"),
        ({"about": '{"fedrl": "\\u001b0.0"}'}, "0.0 and not"),
        ({"token": "f" * 16}, "it answers another token"),
        ({"refused": "no \x00thanks"}, "no thanks"),
    ]
    made, grid = federation(tmp_path, workers)
    for words, sentence in lies:
        status = StatusFile(made.server.status)
        status.begin(7, 0, 4, {"a": [0, 1], "b": [2]})
        one = sites.Sites(
            grid, made.agreement, server_app.roster.read(made.server.site_keys, made.agreement), "5a" * 8, status
        )
        one.about = about()
        honest = grid.workers["b"]._introduce
        grid.workers["b"]._introduce = lambda asked, words=words, honest=honest: _lying(honest(asked), words)
        one.look_around()
        one.introduce()
        assert one.pull() == []
        grid.workers["b"]._introduce = honest
        assert sentence in one.refusals["b"].why, one.refusals["b"]
        assert one.refusals["b"].why.isprintable()
        assert "b" not in one.known


def _lying(frame, words):
    frame.header["words"]["answer"].update(words)
    return frame


def test_two_exchanges_cannot_be_late(tmp_path):
    method = {"name": "fedpohcs", "candidates": 2, "clients": 1}
    learner = {"name": "ppo", "steps": 8, "num_envs": 1, "value": [4], "warm_up": 8, "remember": 1}
    agreed = AGREED | {
        "method": {"name": "fedavg"},
        "learner": learner,
        "policy": {"name": "mlp", "sizes": [4]},
        "selection": method,
    }
    made = Folders(
        tmp_path, agreed | {"rules": RULES | {"late": "inverse"}}, {"a": CLIFF_WALKING, "b": CLIFF_WALKING}, 5
    )
    with pytest.raises(
        FileError, match='late = .inverse. is for methods with one exchange a round, this one has 2.*"drop"'
    ):
        play(made, None)
