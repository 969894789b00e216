"""MuJoCo's Hopper with identical clients, trained by PPO and federated averaging in worker processes."""

from dataclasses import dataclass

import numpy as np

from fedrl.engines.processes import processes
from fedrl.federation import Federation
from fedrl.local.steps import decaying
from fedrl.policies.mlp import gaussian_mlp
from fedrl.recipes.control._solved import ppo_fedavg, solved
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "fedrl"
SHOWS = "PPO-FedAvg teaches Hopper to hop (1,000)"
MINUTES = 6.0
SEEDS = 2
PAPER_SIZE: dict = {}


@dataclass(frozen=True)
class Config:
    clients: int = 2
    rounds: int = 120
    steps: int = 4000  # environment steps of a client between two rounds
    copies: int = 4
    rate: float = 3e-4
    decay: float = 0.99
    epochs: int = 10
    minibatch: int = 64
    episodes: int = 5  # of each client in an evaluation
    every: int = 5


def build(config: Config) -> dict[str, Arm]:
    from fedrl.environments import mujoco  # an extra, which other recipes do without
    from fedrl.environments.mujoco_tasks import HOPPER, world

    return ppo_fedavg(
        config,
        Federation(mujoco.hopper(), world(HOPPER, noise=np.full(config.clients, HOPPER.noise))),
        processes(),
        policy=gaussian_mlp(64, 64, last=0.01),
        rate=decaying(config.rate, decay=config.decay),
    )


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return solved(arms, 1000.0)
