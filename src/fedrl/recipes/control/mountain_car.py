"""MountainCarContinuous with identical clients, trained by PPO and federated averaging.

The goal is found only by pushing in one direction for a while, so exploration noise is held for eight steps.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from fedrl.engines.fused import fused
from fedrl.environments import mountain_car
from fedrl.federation import Federation
from fedrl.local.steps import constant
from fedrl.policies.mlp import gaussian_mlp
from fedrl.recipes.control._solved import ppo_fedavg, solved
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "fedrl"
SHOWS = "PPO-FedAvg solves MountainCarContinuous (90 of 100)"
MINUTES = 1.5
SEEDS = 5
PAPER_SIZE: dict = {}


@dataclass(frozen=True)
class Config:
    clients: int = 8
    rounds: int = 32
    local_steps: int = 2
    steps: int = 2048  # environment steps per iteration
    copies: int = 2
    hold: int = 8  # steps for which the exploration noise stays the same
    rate: float = 1e-3
    epochs: int = 4
    minibatch: int = 128
    episodes: int = 10  # of each client in an evaluation
    every: int = 2


def build(config: Config) -> dict[str, Arm]:
    return ppo_fedavg(
        config,
        Federation(mountain_car.environment(), mountain_car.world(shift=jnp.zeros(config.clients))),
        fused("vmap"),
        policy=gaussian_mlp(64, 64, hold=config.hold),
        local_steps=config.local_steps,
        rate=constant(config.rate),
    )


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return solved(arms, 90.0)
