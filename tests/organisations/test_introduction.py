"""What a site says when the server cannot have it: in its own terminal too, once, with what to do."""

import json

import jax
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.organisations import CLIFF, Folders

from fedrl.engines.versions import about
from fedrl.organisations.frames import Frame
from fedrl.organisations.worker import Worker

AGREED = {
    "name": "cliffs", "rounds": 4, "max_episode_steps": 12, "episodes": 1, "spaces": CLIFF, "sites": {"a": 2, "b": 1},
    "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
}  # fmt: skip


class Asked:
    """A worker, and what it has said in the terminal of `join`."""

    def __init__(self, made: Folders):
        self.said: list[str] = []
        self.worker: Worker = made.worker("a")
        self.worker.say = self.said.append
        self.agreement = made.agreement

    def answer(self, **changes) -> dict:
        words = {"run": "0" * 16, "token": "t", "agreement": self.agreement.text, "site": "a"}
        asked = words | {"about": json.dumps(about())} | changes
        frame = self.worker.answer(Frame({"call": "query", "arrays": {}, "words": {"asked": asked}}, []))
        return frame.header["words"]["answer"]


@pytest.fixture
def asked(tmp_path) -> Asked:
    return Asked(Folders(tmp_path, AGREED, {"a": "CliffWalking-v1", "b": "CliffWalking-v1"}))


def test_a_site_that_belongs(asked):
    answer = asked.answer()
    assert (answer["site"], answer["clients"]) == ("a", 2)
    assert asked.said == ["the server knows this site; waiting for work"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            lambda text: {"agreement": text.replace("rounds = 4", "rounds = 9")},
            "site a: federation.toml is not the server's: line 2 is 'rounds = 4' here and 'rounds = 9' there; get the "
            "server's file and start join again",
        ),
        (
            lambda text: {"site": "b"},
            "site a: its key is that of site b; correct `site` in site.toml, or put its own site.key and site.pub back, and "
            "start join again",
        ),
        (
            lambda text: {"about": json.dumps(about() | {"jax": "0.1.2"})},
            f"site a is not like the server: jax is {jax.__version__} here and 0.1.2 there; pip install 'jax==0.1.2', and "
            "start join again",
        ),
        (
            lambda text: {"about": json.dumps(about() | {"jax_enable_x64": "True"})},
            "site a is not like the server: jax_enable_x64 is False here and True there; give JAX the same settings, and "
            "start join again",
        ),
    ],
)
def test_what_differs_is_said_once_at_the_site_and_to_the_server(asked, changes, sentence):
    for _ in range(3):  # the server asks whenever the node connects
        assert asked.answer(**changes(asked.agreement.text))["refused"] == sentence
    assert asked.said == [sentence]


def test_what_a_server_says_is_no_command(asked):
    """The sentence is for a terminal, and part of it to be copied into one."""
    version = "0.1'; rm -r ~; '\x1b[2J\n"
    refused = asked.answer(about=json.dumps(about() | {"jax": version}))["refused"]
    assert "there; pip install 'jax==0.1???rm?-r?????" in refused
    refused = asked.answer(site="b\nover\x1b[2J" + 99 * "x")["refused"]
    assert f"that of site b?over??2J{54 * 'x'}; correct" in refused
    assert all(text.isprintable() for text in asked.said)


def test_it_is_said_again_after_all_was_well(asked):
    asked.answer(site="b")
    asked.answer(site="a")
    asked.answer(site="b")
    assert [text.startswith("site a: its key") for text in asked.said] == [True, False, True]
