"""A pretrained language model, SmolLM2-135M-Instruct, learns to shop: six shops, adapters, GRPO (after FedAgent)."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.experiments.headline import headline
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.plots import curves
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _config as shared
from fedrl.recipes.fedagent import _results as results
from fedrl.recipes.fedagent import _study as study

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
    """Each seed has a line of its own: they are too few for a band."""
    rounds, success = arms[FEDERATED].curve()
    seeds = {
        f"seed {number}": [{"round": int(r), "return": y} for r, y in zip(rounds, of_seed, strict=True)]
        for number, of_seed in enumerate(success.T)
    }
    figure = curves.draw(
        seeds, folder / "success.png", title=headline(claims(config, arms)),
        per_round=dict.fromkeys(seeds, config.local_epochs), words=results.AXES,
    )  # fmt: skip
    return [figure]


RECIPE = Recipe(
    **facts("fedagent/smollm2"),
    seeds=1,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=("federated agents end above the model they started from",),
)
