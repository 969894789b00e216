"""Figure 7 of Xie & Song 2025: MuJoCo Hoppers at low, medium and high heterogeneity, four ways of choosing who trains."""

from dataclasses import dataclass, replace
from pathlib import Path

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xie2025 import _claims as says
from fedrl.recipes.xie2025 import _hoppers as hoppers
from fedrl.recipes.xie2025 import _levels as levels
from fedrl.recipes.xie2025._hoppers import PAPER_SETTINGS
from fedrl.recipes.xie2025._methods import FEDAVG, FEDPOHCS, FOUR, GRADIENT, POWER


@dataclass(frozen=True)
class Config(hoppers.Config):
    levels: tuple[str, ...] = levels.ALL  # of heterogeneity: one panel each
    rounds: int = 4


def build(config: Config) -> dict[str, Arm]:
    levels.check(config.levels)
    return {
        levels.arm_name(level, name): hoppers.arm(replace(config, level=level), name)
        for level in config.levels
        for name in FOUR
    }


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    found = levels.by_level(config.levels, arms)
    return [
        says.falls_with_level(found, FEDAVG),
        *(says.less_affected(found, name, FEDAVG) for name in (FEDPOHCS, POWER, GRADIENT)),
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [levels.draw(levels.by_level(config.levels, arms), folder / "return.png", "Hoppers by heterogeneity")]


RECIPE = Recipe(
    **facts("xie2025/fig7"),
    seeds=1,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=3,
    claim_texts=(
        "FedAvg does worse the higher the heterogeneity",
        "FedPOHCS, Power-of-Choice and GradientNorm lose less from low to high heterogeneity than FedAvg",
    ),
)
