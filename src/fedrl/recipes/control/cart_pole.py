"""CartPole with two identical clients, trained by PPO and federated averaging: the smallest neural federation."""

from dataclasses import dataclass

from fedrl.engines.fused import fused
from fedrl.environments import cart_pole
from fedrl.federation import Federation
from fedrl.local.steps import constant, decaying
from fedrl.policies.mlp import categorical_mlp
from fedrl.recipes.control._solved import ppo_fedavg, solved
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "fedrl"
SHOWS = "PPO-FedAvg solves CartPole (475 of 500)"
MINUTES = 1.0
SEEDS = 5
PAPER_SIZE: dict = {}


@dataclass(frozen=True)
class Config:
    clients: int = 2
    rounds: int = 50
    steps: int = 2000  # environment steps of a client between two rounds
    copies: int = 4  # rows these steps are taken in: each as long as an episode may be
    rate: float = 1.5e-3
    decay: float = 0.96  # of the rate per round
    entropy: float = 0.01
    epochs: int = 6
    minibatch: int = 125
    episodes: int = 10  # of each client in an evaluation
    every: int = 2


def build(config: Config) -> dict[str, Arm]:
    return ppo_fedavg(
        config,
        Federation(cart_pole.environment(), cart_pole.start_ranges(config.clients, 0.05, 0.05)),
        fused("vmap"),
        policy=categorical_mlp(64, 64, last=0.01),
        rate=decaying(config.rate, decay=config.decay),
        entropy=constant(config.entropy),
        filter_rewards=False,
    )


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return solved(arms, 475.0)
