"""A first look at FedAgent (paper 002): twenty shops' agents that learn together, and one that learns alone, on WebShop."""

from dataclasses import dataclass

from fedrl.recipes.fedagent import _study as study
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "fedrl, after FedAgent (paper 002)"
SHOWS = "language agents that share no task and no episode learn to shop together"
MINUTES = 12.0
SEEDS = 2
PAPER_SIZE: dict = {}

FEDERATED, ALONE = "FedAgent", "one client alone"


@dataclass(frozen=True)
class Config(study.Config):
    clients: int = 20
    tasks_each: int = 40
    local_epochs: int = 2
    rounds: int = 10
    every: int = 5


def build(config: Config) -> dict[str, Arm]:
    made = study.Study(config)
    return {FEDERATED: made.fedagent(), ALONE: made.local(0)}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """By success on held-out tasks; seeds are shared between the arms."""
    return [
        study.above(
            f"{FEDERATED} ends above the model it started from", arms[FEDERATED].final(), study.start(arms[FEDERATED])
        ),
        study.above(f"{FEDERATED} ends above {ALONE}", arms[FEDERATED].final(), arms[ALONE].final()),
    ]
