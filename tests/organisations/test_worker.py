"""A site's worker between messages: what it remembers of the last one, and what it takes from a server that errs or lies."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.organisations import CART_POLE, Folders, LocalGrid

from fedrl.organisations import common_policy, node, server_app
from fedrl.organisations.frames import Frame
from fedrl.organisations.site import Refusals
from fedrl.organisations.site_work import SiteWork
from fedrl.organisations.status_file import StatusFile
from fedrl.organisations.tables import FileError

PPO = {
    "name": "ppo", "steps": 8, "num_envs": 1, "epochs": 1, "minibatch": 8, "critic_epochs": 1, "value": [4],
    "filters": "own", "warm_up": 16,
}  # fmt: skip
AGREED = {
    "name": "poles", "rounds": 1, "seed": 5, "max_episode_steps": 8, "episodes": 1, "spaces": CART_POLE,
    "sites": {"a": 1}, "method": {"name": "fedavg"}, "learner": PPO, "policy": {"name": "mlp", "sizes": [4]},
}  # fmt: skip


class Asked:
    """A worker that has played a run, what it was asked then, and what it says in the terminal of `join`."""

    def __init__(self, made: Folders):
        grid = LocalGrid(made, {"a": made.worker("a")})
        server_app.play(made.server, made.agreement, grid, 7, StatusFile(made.server.status))
        self.made, self.worker, self.said = made, grid.workers["a"], list[str]()
        self.worker.say = self.said.append
        self.frames = [node.to_frame("work", m.content) for m in grid.sent if m.metadata.message_type == "train"]
        self.first = self.frames[0]

    def answer(self, frame: Frame, **words) -> dict:
        asked = frame.header["words"]["asked"] | words
        answer = self.worker.answer(Frame(frame.header | {"words": {"asked": asked}}, frame.blobs))
        return answer.header["words"]

    def about(self, **changes) -> dict:
        """The answer to the first question with its item changed."""
        (item,) = json.loads(self.first.header["words"]["asked"]["items"])
        return self.answer(self.first, items=json.dumps([item | changes]))

    def memories(self, run: str) -> list[str]:
        return [path.name for path in (self.made.homes["a"] / "memory" / run).rglob("*.safetensors")]


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Asked:
    return Asked(Folders(tmp_path_factory.mktemp("poles"), AGREED, {"a": "CartPole-v1"}, None))


@pytest.fixture
def asked(played) -> Asked:
    played.said.clear()
    played.worker.last = None
    return played


def test_the_same_question_in_another_run_is_another_one(asked):
    """A server that begins a run anew asks first what it has asked before: the new run has memories of its own."""
    begun = 8 * "0f"
    asked.answer(asked.first)
    asked.answer(asked.first, run=begun)
    assert asked.memories(begun) == ["00000001.safetensors"]
    assert len(asked.said) == 2


def test_what_failed_is_done_again(asked):
    """A disk that was full has room again: the same question has a good answer now."""
    begun = 8 * "1f"
    in_the_way = asked.made.homes["a"] / "memory" / begun
    in_the_way.write_text("no folder")
    assert "its work raised FileExistsError" in asked.answer(asked.first, run=begun)["failures"]["list"]
    in_the_way.unlink()
    assert asked.answer(asked.first, run=begun)["failures"]["list"] == "[]"
    asked.answer(asked.first, run=begun)
    assert len(asked.said) == 2  # the good one is remembered


def test_work_that_is_not_this_sites(asked):
    """Nothing is done for it, and nothing of it is said."""
    lies = {
        "there is no exchange 'over\\n\\x1b[2J'": {"exchange": "over\n\x1b[2J"},
        "a does the work of clients 0, not of client 1": {"clients": [1]},
        "not of client -1": {"clients": [-1]},
        "not of client True": {"clients": [True], "slots": [0]},
        "not of client 0.0": {"clients": [0.0]},
        "not of client '../x'": {"clients": ["../x"]},
    }
    for sentence, changes in lies.items():
        assert sentence in asked.about(**changes)["answer"]["refused"]
    for run in ("../../x", "0" * 15, "0" * 16 + "\n", "G" * 16):
        assert "is no name of a run" in asked.answer(asked.first, run=run)["answer"]["refused"]
    assert asked.said == []


def test_versions_of_memories_that_cannot_be(asked):
    """The memory that a server counts is older than the one it asks for; others are refused, and the worker goes on."""
    for version in (2, 1, 0, -1):
        failures = asked.about(counted=[2], version=version)["failures"]["list"]
        assert (
            f"client 0: its memory of version {version} cannot be made from version 2, which is not older" in failures
        )
    for counted in (-1, 10**9):
        assert "client 0: its memory of version" in asked.about(counted=[counted])["failures"]["list"]


def test_a_policy_that_cannot_be_written_is_no_end(asked, monkeypatch):
    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(common_policy, "save", fail)
    asked.worker.evaluated = ("", None, {})
    asked.worker.afterwards()
    assert asked.worker.evaluated is None


def test_the_site_refuses_many_local_steps_of_any_exchange(asked):
    """The warm-up has two, the training one."""
    site, agreement = asked.worker.site, asked.made.agreement
    SiteWork(site._replace(refuse=Refusals([], 2, None)), agreement)
    with pytest.raises(FileError, match="allows 1 local steps, and federation.toml asks for 2 in exchange 'opening-0'"):
        SiteWork(site._replace(refuse=Refusals([], 1, None)), agreement)


def test_an_event_is_one_line():
    """Whatever a server puts into it: it cannot say in the site's name that the run is over."""
    event = "round 1: train\nover\x1b[2J\u2028\u202e"
    code = f"from fedrl.organisations import events; events.channel()({event!r})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "round 1: train?over?[2J??\n"
