"""Clients on OpenStreetMap files: several at once, and what happens if their processes die (about 12 s)."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedrl import training
from fedrl.algorithms.fedavg import pavg
from fedrl.engines import local_processes as workers
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.traffic import osm
from fedrl.environments.traffic.osm import process_pool
from fedrl.evaluation import sampled_return
from fedrl.federations.osm import federation
from fedrl.policies.mlp import gaussian_mlp
from fedrl.rollouts import host

VILLAGE = Path(__file__).parents[1] / "support" / "village.osm"
TOWNS = (osm.Network(VILLAGE, 12.0, 2.0, 4.0), osm.synthetic.network(5))
SEEDS = np.array([5, 2**63 + 7], np.uint64)
BOTH = np.arange(2)


@pytest.fixture
def clients():
    """Two clients, two copies each."""
    environment = federation(TOWNS, horizon=40).environment
    found = [environment.open(i, np.int32(i), 2) for i in range(2)]
    yield found
    for client in found:
        client.close()
    assert not process_pool._pool, "processes were left behind"


def episode(client, steps=30, before=lambda step: None):
    """All that comes of two episodes, as one row of numbers."""
    random = np.random.default_rng(0)
    came = [client.reset(BOTH, SEEDS)]
    for step in range(steps):
        before(step)
        came += client.step(random.normal(size=(2, 2)).astype(np.float32))
    return np.concatenate([np.ravel(x).astype(float) for x in came])


def kill(number):
    os.kill(process_pool._pool[number].env._process.pid, 9)


def test_as_alone(clients):
    """A client sees what the environment alone shows, and clients see different things."""
    env = osm.OsmRoads(VILLAGE, target_speed=12.0, max_accel=2.0, max_decel=4.0, horizon=40)
    client, other = clients
    seen, _ = env.reset(seed=int(SEEDS[1]))
    begun = client.reset(BOTH, SEEDS)
    np.testing.assert_array_equal(begun[1], seen)
    for _ in range(40):
        seen, reward, terminated, truncated, _ = env.step(np.array([1.0, 0.2], np.float32))
        came = client.step(np.tile(np.array([7.0, 0.2], np.float32), (2, 1)))
        for one, many in zip((seen, reward, terminated, truncated), came, strict=True):
            np.testing.assert_array_equal(many[1], one)
    assert came[3].all()
    env.close()
    assert (other.reset(BOTH, SEEDS) != begun).any()
    assert len(process_pool._pool) == 2, "both clients have the same processes"


def test_a_death_and_another_clients_turn_change_nothing(clients):
    client, other = clients
    wanted = episode(client)
    np.testing.assert_array_equal(episode(client), wanted)
    np.testing.assert_array_equal(episode(client, before=lambda step: kill(1) if step == 20 else None), wanted)
    between = lambda step: other.reset(BOTH, SEEDS) if step == 20 else None  # noqa: E731
    np.testing.assert_array_equal(episode(client, before=between), wanted)
    kill(0)
    np.testing.assert_array_equal(episode(client), wanted)


def test_a_process_that_dies_again_and_again(clients, monkeypatch):
    client, _ = clients
    client.reset(BOTH, SEEDS)
    restart = process_pool.PooledProcess.restart

    def in_vain(process):
        restart(process)
        process.env._process.kill()
        process.env._process.wait()

    monkeypatch.setattr(process_pool.PooledProcess, "restart", in_vain)
    kill(1)
    with pytest.raises(
        EnvironmentFailed, match="client 0: the process of copy 1 died 3 times in a row after 0 steps of the episode"
    ):
        client.step(np.zeros((2, 2), np.float32))


def test_what_is_wrong_with_a_client_is_said(tmp_path, clients):
    with pytest.raises(EnvironmentFailed, match="client 1: .*nowhere.osm cannot be read"):
        federation([VILLAGE, tmp_path / "nowhere.osm"])
    with pytest.raises(ValueError, match="expected at least one network"):
        federation([])
    clients[0].reset(BOTH, SEEDS)
    with pytest.raises(EnvironmentFailed, match="client 0, copy 0: action .* expected an acceleration"):
        clients[0].step(np.full((2, 2), np.nan, np.float32))


def test_engines_agree():
    roads = federation([*TOWNS, VILLAGE], horizon=20)
    assert roads.count == 3
    assert roads.weight is None, "all weigh the same"
    runs = [
        training.train(
            pavg(eta=0.01, local_steps=1, horizon=10, policy=gaussian_mlp(4)),
            roads,
            rounds=1,
            engine=engine,
            evaluation=sampled_return(2),
        )
        for engine in (one_at_a_time(), processes(1))
    ]
    workers.stop()
    host.close_all()
    np.testing.assert_array_equal(runs[0].returns, runs[1].returns)
    assert (runs[0].returns > 0).all()
