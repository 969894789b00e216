"""Figure 6 of Xie & Song 2025: Mountain Cars at low, medium and high heterogeneity, four ways of choosing who trains."""

from dataclasses import dataclass, replace
from pathlib import Path

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xie2025 import _claims as says
from fedrl.recipes.xie2025 import _levels as levels
from fedrl.recipes.xie2025 import _mountain_cars as cars
from fedrl.recipes.xie2025._methods import BASELINES, FEDAVG, FEDPOHCS, FOUR


@dataclass(frozen=True)
class Config(cars.Config):
    levels: tuple[str, ...] = levels.ALL  # of heterogeneity: one panel each
    rounds: int = 10


def build(config: Config) -> dict[str, Arm]:
    levels.check(config.levels)
    return {
        levels.arm_name(level, name): cars.arm(_at(config, level, name), name)
        for level in config.levels
        for name in FOUR
    }


def _at(config: Config, level: str, name: str) -> Config:
    """Published: FedAvg has its larger rate at medium heterogeneity only."""
    return replace(
        config,
        level=level,
        fedavg_learning_rate=config.fedavg_learning_rate if level == "medium" else config.learning_rate,
    )


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    by_level = levels.by_level(config.levels, arms)
    return [
        *(says.falls_with_level(by_level, name) for name in FOUR),
        *(says.gap_grows(by_level, FEDPOHCS, name) for name in BASELINES),
        *(says.ends_above(of, FEDPOHCS, FEDAVG, f"{level}: ") for level, of in by_level.items()),
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [levels.draw(levels.by_level(config.levels, arms), folder / "return.png", "Mountain Cars by heterogeneity")]


RECIPE = Recipe(
    **facts("xie2025/fig6"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings={"rounds": 150, "warm_up": 100_000, "eval_every": 2},
    paper_seeds=3,
    claim_texts=(
        "every method does worse the higher the heterogeneity",
        "the lead of FedPOHCS over each other method grows with heterogeneity",
        "FedPOHCS ends above FedAvg at every level",
    ),
)
