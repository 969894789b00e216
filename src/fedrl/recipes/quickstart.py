"""A first look: federating beats going alone, and a heterogeneity-aware method beats plain averaging."""

from dataclasses import dataclass

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines.fused import fused
from fedrl.environments import finite, random_mdp
from fedrl.federation import Federation
from fedrl.local.reinforce import reinforce
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "fedrl"
SHOWS = "federating beats going alone; a heterogeneity-aware method beats plain averaging"
MINUTES = 1.0
SEEDS = 8


@dataclass(frozen=True)
class Config:
    clients: int = 20
    kappa: float = 0.8
    rounds: int = 100
    eta: float = 0.05
    local_steps: int = 32
    horizon: int = 40
    beta: float = 0.2
    over: str = "vmap"


PAPER_SIZE: dict = {}


def build(config: Config) -> dict[str, Arm]:
    federation = Federation(finite.environment(5, 5, 0.9), random_mdp.dense(5, 5, config.kappa), clients=config.clients)
    steps = {"eta": config.eta, "local_steps": config.local_steps}

    def arm(method) -> Arm:
        return Arm(method, federation, config.rounds, fused(config.over))

    return {
        "alone": arm(alone(reinforce(horizon=config.horizon), **steps)),
        "FedAvg": arm(pavg(**steps, horizon=config.horizon)),
        "FedSVRPG-M": arm(fedsvrpg_m(beta=config.beta, horizon=config.horizon, **steps)),
    }


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return []
