"""A pretrained language model, SmolLM2-135M-Instruct, learns to shop: six shops, adapters, GRPO (after FedAgent)."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.experiments.headline import headline
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _config as shared
from fedrl.recipes.fedagent import _results as results
from fedrl.recipes.fedagent import _study as study

SHOWS = facts("fedagent/smollm2")["shows"]

FEDERATED = "FedAgent"


@dataclass(frozen=True)
class Config(shared.Config):
    model: str = "smollm2"
    shop_steps: int = 10
    demonstrations: int = 100
    clients: int = 6
    tasks_each: int = 40
    local_epochs: int = 1
    rounds: int = 6
    tasks: int = 4
    minibatch: int = 8
    learning_rate: float = 5e-4
    evaluate: int = 64


def build(config: Config) -> dict[str, Arm]:
    return {FEDERATED: study.Study(config).fedagent()}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    only = arms[FEDERATED]
    return [results.above(f"{FEDERATED} ends above the model it started from", only.final(), results.start(only))]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [results.draw(config, arms, folder / "success.png", f"{SHOWS}\n{headline(claims(config, arms))}", {})]


RECIPE = Recipe(
    **facts("fedagent/smollm2"),
    seeds=1,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=("federated agents end above the model they started from",),
)
