"""A site that lies, over the real wire: refused, named, never averaged, and the others go on (3 minutes)."""

import sys
from pathlib import Path

import gymnasium
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support import rogue
from support.organisations import CLIFF
from support.proxied import needs_nginx
from support.replays import absences, ending, leaving_out
from support.rogue import REPLAYED, TOLD
from support.served import served

pytestmark = needs_nginx
AGREED = {
    "name": "cliffs", "rounds": REPLAYED + 2, "seed": 5, "max_episode_steps": 12, "episodes": 1, "spaces": CLIFF,
    "rules": {"quorum": 2, "deadline": 60.0, "patience": 120.0, "largest_number": 1e6, "largest_norm": 1e9},
    "sites": {"a": 2, "b": 1}, "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
}  # fmt: skip
MODULE = """import gymnasium


def make_env():
    return gymnasium.make("CliffWalking-v1")
"""


def test_lies_over_the_wire(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(rogue.__file__).parents[1]))
    with served(tmp_path, AGREED, {"a": MODULE, "b": MODULE}, seed=5) as one:
        one.start("server")
        one.start("a")
        one.start("b", sys.executable, rogue.__file__)
        one.await_round(0, 120)
        one.finish(400)
        said = {(round, exchange): why for round, exchange, why in one.left_out()}
        for round, (name, (_, reason)) in enumerate(TOLD.items(), start=1):
            assert reason in said[round, "train"], (name, said[round, "train"])
        assert "it answers another token (a replay" in said[REPLAYED, "train"]
        assert (REPLAYED + 1, "train") not in said  # it is asked again, and believed
        absent = absences(one.server.run)
        assert {client for _, _, client in absent} == {2}
        here = one.simulate(tmp_path / "here", leaving_out(absent), lambda site: gymnasium.make("CliffWalking-v1"))
        assert ending(one.server.run) == ending(here)
