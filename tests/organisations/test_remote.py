"""What the server expects of an upload whose environment it does not have."""

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from flwr.app import Array, ArrayRecord, RecordDict
from support.lies import asked_round
from support.organisations import CART_POLE, Clock, Folders, UnreliableGrid

from fedrl.algorithms.fedavg import fedavg
from fedrl.engines import wire
from fedrl.learners.ppo import ppo
from fedrl.organisations import parts, remote, server_app, sites, trips
from fedrl.organisations.status_file import StatusFile
from fedrl.records import log
from fedrl.types import Channel

PPO = {"name": "ppo", "steps": 8, "num_envs": 1, "epochs": 1, "minibatch": 8, "critic_epochs": 1, "value": [4]}
AGREED = {
    "name": "poles", "rounds": 7, "seed": 5, "max_episode_steps": 12, "episodes": 1, "spaces": CART_POLE,
    "rules": {"quorum": 1, "deadline": 60.0}, "sites": {"a": 1, "b": 1}, "method": {"name": "fedavg"}, "learner": PPO,
    "policy": {"name": "mlp", "sizes": [4]},
}  # fmt: skip
LIES = {2: ("obs/squares", -1e-3), 3: ("reward/squares", -1e6), 4: ("obs/total", -8.0), 5: ("obs/total", 9.0)}
WHY = "it reports a return, or statistics, that are not possible"


def test_statistics_that_cannot_be(tmp_path, monkeypatch):
    """A negative square would make NaN of what every client sees, for good. Who sends one is left out."""
    clock = Clock()
    for module in (trips, sites):
        monkeypatch.setattr(module, "time", clock)
    made = Folders(tmp_path, AGREED, {"a": "CartPole-v1", "b": "CartPole-v1"}, 5)
    grid = UnreliableGrid(made, {name: made.worker(name) for name in made.homes})

    def lie(message, answer):
        end, number = LIES.get(asked_round(message), ("", 0.0))
        name = max(answer.content.array_records)
        arrays = dict(answer.content.array_records[name])
        for path in [path for path in arrays if end and path.endswith(end)]:
            (leaf,), _ = wire.unpack(arrays[path].data)
            arrays[path] = Array(
                "float32", leaf.shape, "fedrl.wire", wire.pack([np.full(leaf.shape, number, np.float32)])
            )
        answer.content = RecordDict({**answer.content, name: ArrayRecord(arrays)})
        return answer

    grid.twist["b"] = lie
    server_app.play(made.server, made.agreement, grid, 7, StatusFile(made.server.status))
    rows = log.read(made.server.run / "log.jsonl")
    assert {row["round"]: row["left_out"] for row in rows if "left_out" in row} == {
        round: [{"exchange": "train", "seed": 5, "client": 1, "why": WHY}] for round in LIES
    }
    assert len(rows) == 8


def test_a_channel_that_changes_uploads_is_believed(tmp_path):
    """The server cannot know what such an upload says."""
    made = Folders(tmp_path, AGREED, {"a": "CartPole-v1", "b": "CartPole-v1"}, 5)
    federation = parts.of(made.agreement).federation
    learner = ppo(steps=8, num_envs=1, minibatch=8)
    doubled = Channel(lambda upload, *_: jax.tree.map(lambda x: 2 * x, upload), lambda aggregate, *_: aggregate)
    trained = [
        remote.at_server(method)(federation).training.local.possible
        for method in (
            fedavg(learner),
            fedavg(learner, channel=doubled),
            fedavg(ppo(steps=8, num_envs=1, filters="own")),
        )
    ]
    assert trained[0] is not None
    assert trained[1:] == [None, None]
