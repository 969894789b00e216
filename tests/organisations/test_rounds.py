"""Rounds of a federation between organisations: with a shared secret, the bytes of `one_at_a_time`."""

import json

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from safetensors.numpy import load_file
from support.organisations import CART_POLE, CLIFF, Folders, LocalGrid

import fedrl
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import sampled_return
from fedrl.organisations import parts, server_app, trips
from fedrl.organisations.status_file import StatusFile, read
from fedrl.records import log

PPO = {
    "name": "ppo",
    "steps": 16,
    "num_envs": 2,
    "epochs": 1,
    "minibatch": 16,
    "value": [8],
    "warm_up": 64,
    "remember": 4,
}
SMALL = {"name": "mlp", "sizes": [8]}
RULES = {"quorum": 3, "deadline": 60.0, "patience": 0.0}
CLIFFS = {
    "name": "cliffs",
    "rounds": 3,
    "seed": 5,
    "max_episode_steps": 12,
    "episodes": 2,
    "spaces": CLIFF,
    "rules": RULES,
}
POLES = CLIFFS | {"name": "poles", "spaces": CART_POLE}
SVRPG = {"name": "fedsvrpg_m", "beta": 0.3, "eta": 0.3, "local_steps": 2, "horizon": 6, "batch": 2, "first_batch": 3}
TWO_PHASES = {"name": "fedpohcs", "candidates": 3, "clients": 2}
METHODS = {
    "FedAvg and PPO": POLES | {"method": {"name": "fedavg"}, "learner": PPO, "policy": SMALL},
    "own filters": POLES | {"method": {"name": "fedavg"}, "learner": PPO | {"filters": "own"}, "policy": SMALL},
    "FedSVRPG-M": CLIFFS | {"method": SVRPG},
    "FedPOHCS": POLES | {"method": {"name": "fedavg"}, "learner": PPO, "policy": SMALL, "selection": TWO_PHASES},
    "alone": CLIFFS | {"method": {"name": "alone"}, "learner": {"name": "gradient_learner", "eta": 0.3, "local_steps": 2,
        "direction": {"name": "reinforce", "horizon": 6, "batch": 2}}},
    "noise": CLIFFS | {"method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 6},
        "privacy": {"clip": 1.0, "noise": 0.5}},
}  # fmt: skip
IDS = {id(CLIFF): "CliffWalking-v1", id(CART_POLE): "CartPole-v1"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(trips, "LOOK", 0.0)


def folders(path, agreed, seed=5):
    environment = IDS[id(agreed["spaces"])]
    return Folders(path, agreed | {"sites": {"a": 1, "b": 2}}, {"a": environment, "b": environment}, seed)


def play(made: Folders, grid=None):
    grid = grid or LocalGrid(made, {name: made.worker(name) for name in made.homes})
    status = StatusFile(made.server.status)
    server_app.play(made.server, made.agreement, grid, 7, status)
    status.save(force=True)
    return grid


def simulated(made: Folders, name: str, path):
    """The same agreement in one process."""
    built = parts.of(made.agreement)
    federation = fedrl.gymnasium(name, clients=3, max_episode_steps=12)
    rounds, rule = made.agreement.rounds, server_app.rule(made.agreement)
    evaluation = sampled_return(made.agreement.episodes)
    return fedrl.train(
        built.method, federation, rounds=rounds, seed=made.agreement.seed, out=path, engine=one_at_a_time(),
        evaluation=evaluation, faults=rule, callback=lambda row, rounds: None,
    )  # fmt: skip


def rows(path):
    drop = {"seconds"}
    return [{name: x for name, x in row.items() if name not in drop} for row in log.read(path / "log.jsonl")]


@pytest.mark.parametrize("case", METHODS)
def test_bytes_of_one_at_a_time(case, tmp_path):
    made = folders(tmp_path, METHODS[case])
    play(made)
    simulated(made, IDS[id(METHODS[case]["spaces"])], tmp_path / "here")
    assert json.dumps(rows(made.server.run)) == json.dumps(rows(tmp_path / "here"))
    there, here = (load_file(path / "policy.safetensors") for path in (made.server.run, tmp_path / "here"))
    for name, value in there.items():
        assert value.tobytes() == here[name].tobytes(), name
    if case != "alone":
        assert any(name.startswith("theta") for name in there)
    status = read(made.server.status)
    assert (status.round, {site.state for site in status.sites.values()}) == (3, {"online"})


def test_the_site_has_the_policy(tmp_path):
    made = folders(tmp_path, METHODS["FedAvg and PPO"])
    run = play(made)
    assert run
    there, own = load_file(made.server.run / "policy.safetensors"), load_file(made.homes["b"] / "policy.safetensors")
    assert {name: x.tobytes() for name, x in own.items()} == {name: x.tobytes() for name, x in there.items()}


def test_one_trip_a_round(tmp_path):
    """The evaluation of a round and the training of the next go in one message."""
    made = folders(tmp_path, METHODS["FedAvg and PPO"])
    grid = play(made)
    asked = [
        json.loads(m.content.config_records["asked"]["items"]) for m in grid.sent if m.metadata.message_type == "train"
    ]
    trips_of = [[item["exchange"] for item in items] for items in asked]
    assert trips_of.count(["measure", "train"]) == 2 * 2  # two sites, after rounds 1 and 2
    assert trips_of[-2:] == [["measure"], ["measure"]]  # after the last round nothing is trained


def test_nothing_of_a_site_travels(tmp_path):
    """No key, no seed and no memory is in any message."""
    made = folders(tmp_path, METHODS["FedPOHCS"])
    grid = play(made)
    names = {name for m in grid.sent for record in m.content.array_records.values() for name in record}
    assert {name.split("/")[0] for name in names} == {"server", "cohort"}
    state = jax.tree.leaves(log.read(made.server.run / "log.jsonl"))
    assert state
    stored = load_file(next((made.server.run / "checkpoint").glob("*.safetensors")))
    memories = {name: x for name, x in stored.items() if name.startswith("clients/memory")}
    assert [(x.dtype, x.shape) for x in memories.values()] == [(np.int32, (1, 3))]  # versions


def test_secrets_of_their_own(tmp_path):
    """Sites that share no secret draw differently, each time the same."""
    ends = []
    for place, seed in (("one", None), ("two", None), ("three", 5)):
        (tmp_path / place).mkdir()
        made = folders(tmp_path / place, METHODS["FedSVRPG-M"] | {"rounds": 1}, seed)
        (made.server.home / "run-name").write_text("5a" * 8)
        made.server.run.mkdir()
        play(made)
        ends.append(load_file(made.server.run / "policy.safetensors")["theta"].tobytes())
    assert ends[0] == ends[1] != ends[2]
