"""HongKongOSMs (Xie & Song 2025, §5.1) on ten synthetic road networks: one car learns among ten on each.

The paper's extracts of Hong Kong are not public, and these are no part of Hong Kong. Of Tables 3 and 4: rate, decay, batch,
steps, E, KL target, N, d, K and I. Ours, because the paper does not say: the networks, the reward, the length of a step
and of an episode (`environments/traffic/osm`), the number of rounds, rounding, and how the entropy bonus falls.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fedrl.engines.local_processes import processes
from fedrl.evaluation import sampled_return
from fedrl.experiments.recipe import Arm, RecipeError
from fedrl.recipes.xie2025 import _methods as methods

NETWORKS = 10
ENTROPY_EVERY = 20  # rounds


@dataclass(frozen=True)
class Config(methods.Config):
    clients: int = NETWORKS  # N: the synthetic networks 0, 1, … up to ten
    candidates: int = 9
    local_steps: int = 2  # I: iterations between two rounds
    participants: int = 2
    rounds: int = 4
    episodes: int = 1  # of each client in an evaluation, and as many SUMO processes in every worker
    num_envs: int = 1
    learning_rate: float = 1e-4
    fedavg_learning_rate: float = 1e-4
    epochs: int = 10
    kl_target: float = 1e-4
    warm_up: int = 2048
    remember: int = 1
    horizon: int = 512  # steps of an episode
    dt: float = 0.5  # seconds of a step


PAPER_SETTINGS = {"rounds": 100, "local_steps": 10, "warm_up": 50_000, "remember": 5, "episodes": 20, "eval_every": 1}


def arm(config: Config, name: str) -> Arm:
    """All networks, their clients chosen by the method `name`."""
    from fedrl.environments.traffic import osm
    from fedrl.federations.osm import federation

    if not 1 <= config.clients <= NETWORKS:
        raise RecipeError(f"there are {NETWORKS} networks, got clients={config.clients}; try --set clients={NETWORKS}")
    networks = [osm.synthetic.network(number) for number in range(config.clients)]
    return Arm(
        methods.method(config, name, entropy_every=ENTROPY_EVERY),
        federation(networks, horizon=config.horizon, dt=config.dt, gamma=0.99),
        config.rounds,
        processes(),
        evaluation=sampled_return(config.episodes),
        eval_every=config.eval_every,
    )


def references(config: Config) -> dict[str, float]:
    """Reference values for the curves: a car that always accelerates, and one that SUMO drives like the others."""
    return _reference_returns(config.clients, config.horizon, config.dt)


@cache
def _reference_returns(clients: int, horizon: int, dt: float) -> dict[str, float]:
    """Mean return of an episode on each network."""
    from fedrl.environments.subprocess_env import SubprocessEnv
    from fedrl.environments.traffic.osm import synthetic
    from fedrl.environments.traffic.osm.process_pool import RoadsServer, Settings

    found = {}
    for name, driver in (("always accelerate", "agent"), ("SUMO drives all", "sumo")):
        server = SubprocessEnv(RoadsServer)
        try:
            settings = [Settings(synthetic.network(number), horizon, dt, driver) for number in range(clients)]
            found[name] = float(np.mean([_return(server, one) for one in settings]))
        finally:
            server.close()
    return found


def _return(server: Any, settings: Any) -> float:
    server.call("begin", settings, 0, [])
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated = server.call("advance", np.array([1.0, 0.0], np.float32))
        total, over = total + float(reward), bool(terminated or truncated)
    return total
