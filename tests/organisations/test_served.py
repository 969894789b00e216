"""Real processes on loopback: a SuperLink behind nginx, nodes, workers, TLS and keys. Two minutes for all; the longer trials
are in tests/network."""

import stat

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.machines import MODULES, SPACES, STEPS
from support.proxied import needs_nginx
from support.replays import ending, theta_of
from support.served import Served, served
from support.strangers import tries

pytestmark = needs_nginx
TINY = {
    "name": "machines", "rounds": 3, "seed": 5, "max_episode_steps": STEPS, "episodes": 2, "spaces": SPACES,
    "sites": {"press": 1, "lathe": 2, "oven": 1}, "method": {"name": "fedavg"}, "policy": {"name": "mlp", "sizes": [8]},
    "learner": {"name": "ppo", "steps": 60, "num_envs": 2, "epochs": 1, "minibatch": 30, "value": [8], "filters": "own"},
    "rules": {"deadline": 90.0, "quorum": 4, "patience": 120.0},
}  # fmt: skip


def test_bytes_of_one_at_a_time_whatever_is_killed(tmp_path):
    """Three sites with environments of their own, a shared test secret; the process that trains, a node and a worker die."""
    with served(tmp_path, TINY, MODULES, seed=5) as one:
        one.start_all()
        one.await_round(0, 120)
        assert one.kill("server", "flwr-serverapp")
        assert one.kill("press", "flower-supernode")
        one.await_round(1, 90)
        assert one.kill("lathe", "organisations.worker")
        strangers = tries(one)
        one.finish(120)
        assert strangers == dict.fromkeys(strangers, "refused")
        assert one.left_out() == []
        here = one.simulate(tmp_path / "here")
        assert ending(one.server.run) == ending(here)
        check_homes(one)


def check_homes(one: Served) -> None:
    """Every site has the policy, and its clients' memories; nobody else can read what is private."""
    theta = theta_of(one.server.run / "policy.safetensors")
    for name, files in one.sites.items():
        assert theta_of(files.policy) == theta, name
        assert len(list(files.memory.glob("*/client-*"))) == len(one.agreement.clients_of(name))
        assert stat.S_IMODE(files.home.stat().st_mode) == 0o700
        assert stat.S_IMODE(files.key.stat().st_mode) == stat.S_IMODE(files.secret.stat().st_mode) == 0o600
    said = one.status()
    assert said["state"] == "finished"
    assert np.isfinite(one.rows()[-1]["return"])
