"""Three organisations whose environments nobody else has learn one policy that serves all three better than any of them
could alone (8 minutes)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.machines import MODULES, SPACES, STEPS, make
from support.proxied import needs_nginx
from support.served import Served, served

import fedrl
from fedrl.organisations import agreement as agreements
from fedrl.organisations import parts
from fedrl.policies import read_policy

pytestmark = needs_nginx
SITES = list(MODULES)
EPISODES = 100  # on each machine
PPO = {"name": "ppo", "steps": 600, "num_envs": 5, "epochs": 8, "minibatch": 75, "value": [16], "learning_rate": 1e-3}
SVRPG = {
    "name": "fedsvrpg_m",
    "beta": 0.2,
    "eta": 0.05,
    "local_steps": 10,
    "horizon": 30,
    "batch": 50,
    "first_batch": 100,
}
AGREED = {
    "name": "machines", "seed": 7, "gamma": 0.9, "max_episode_steps": STEPS, "episodes": 4, "spaces": SPACES,
    "sites": dict.fromkeys(SITES, 1), "policy": {"name": "mlp", "sizes": [16]},
    "rules": {"deadline": 120.0, "quorum": 1, "patience": 240.0},
}  # fmt: skip
METHODS = {  # step sizes and rounds were looked for with seed 1, in one process
    "FedAvg and PPO": {"method": {"name": "fedavg"}, "learner": PPO, "rounds": 20},
    "FedSVRPG-M": {"method": SVRPG, "rounds": 25},
    "two-phase FedPOHCS": {
        "method": {"name": "fedavg"}, "learner": PPO | {"warm_up": 1200, "remember": 2},
        "selection": {"name": "fedpohcs", "candidates": 3, "clients": 2},
        "rounds": 30,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_the_common_policy_earns_more_than_each_alone(name, tmp_path):
    """Over all three machines, by three standard errors; each site alone has as many rounds as the federation."""
    agreed = AGREED | METHODS[name]
    (tmp_path / "there").mkdir()
    with served(tmp_path / "there", agreed, MODULES) as one:
        nobody_else_has_it(one)
        one.start_all()
        one.await_round(0, 120)
        one.finish(600)
        assert one.left_out() == []
        common = earned(one.server.run / "policy.safetensors")
        assert earned(one.sites["oven"].policy) == common
    own = {site: earned(alone(agreed, site, tmp_path / site) / "policy.safetensors") for site in SITES}
    differences = {site: np.subtract(common, own[site]) for site in SITES}
    print({site: f"{d.mean():.2f} ± {error(d):.2f}" for site, d in differences.items()}, "more than alone, by", name)
    for site, difference in differences.items():
        assert difference.mean() > 3 * error(difference), (name, site)


def nobody_else_has_it(one: Served) -> None:
    """Each site's module is in its own folder only."""
    for name in SITES:
        assert [path.parent.name for path in one.home.rglob(f"{name}_private.py")] == [name]


def alone(agreed: dict[str, Any], site: str, out: Path) -> Path:
    """The same learner with this site's machine only; where nobody else is, nobody is selected."""
    changes = {"sites": {site: 1}}
    own = agreements.parse(tomli_w.dumps({name: x for name, x in agreed.items() if name != "selection"} | changes))
    federation = fedrl.gymnasium(lambda client: make(site), clients=1, max_episode_steps=STEPS)
    quiet = {"callback": lambda row, rounds: None}
    fedrl.train(parts.of(own).method, federation, rounds=own.rounds, seed=own.seed, out=out, **quiet)
    return out


def earned(policy: Path) -> list[float]:
    """Of EPISODES on each machine, one after the other; the same starts for every policy."""
    act, all_returns = read_policy(policy).policy(), []
    for site in SITES:
        env = make(site)
        for episode in range(EPISODES):
            observation, _ = env.reset(seed=10_000 + episode)
            total = 0.0
            for _ in range(STEPS):
                observation, reward, *_ = env.step(act(observation))
                total += reward
            all_returns.append(total)
    return all_returns


def error(differences: np.ndarray) -> float:
    """The standard error of their mean, machine by machine: the machines are fixed, the starts are drawn."""
    by_machine = differences.reshape(len(SITES), EPISODES)
    return float(np.sqrt((by_machine.var(axis=1, ddof=1) / EPISODES).sum()) / len(SITES))
