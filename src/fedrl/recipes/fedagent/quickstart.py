"""A first look at FedAgent: twenty shops' agents that learn together, and one that learns alone, on WebShop."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _config as shared
from fedrl.recipes.fedagent import _results as results
from fedrl.recipes.fedagent import _study as study

SHOWS = facts("fedagent/quickstart")["shows"]

FEDERATED, ALONE = "FedAgent", "one client alone"


@dataclass(frozen=True)
class Config(shared.Config):
    clients: int = 20
    local_epochs: int = 2
    eval_every: int = 5


def build(config: Config) -> dict[str, Arm]:
    made = study.Study(config)
    return {FEDERATED: made.fedagent(), ALONE: made.local(0)}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    together, alone = arms[FEDERATED].final(), arms[ALONE].final()
    return [
        results.above(f"{FEDERATED} ends above the model it started from", together, results.start(arms[FEDERATED])),
        results.above(f"{FEDERATED} ends above {ALONE}", together, alone),
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [results.draw(config, arms, folder / "success.png", SHOWS, {ALONE: 1})]


RECIPE = Recipe(
    **facts("fedagent/quickstart"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=(
        "federated agents end above the model they started from",
        "they end above an agent that trains alone",
    ),
)
