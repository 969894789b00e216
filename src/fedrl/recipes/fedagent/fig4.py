"""Figure 4 of FedAgent: clients that differ little and much in what they prefer, have seen and find hard."""

from dataclasses import dataclass, replace
from pathlib import Path

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _config as shared
from fedrl.recipes.fedagent import _results as results
from fedrl.recipes.fedagent import _study as study
from fedrl.recipes.fedagent._config import PAPER_SETTINGS

SHOWS = facts("fedagent/fig4")["shows"]


@dataclass(frozen=True)
class Config(shared.Config):
    omegas: tuple[float, float] = (0.1, 0.9)  # preference: clients differ little, much
    xis: tuple[float, float] = (256.0, 1.0)  # coverage: little, much
    xis_hard: tuple[float, float] = (256.0, 1.0)  # hardness: little, much


def panels(config: Config) -> dict[str, dict[str, Config]]:
    """For each challenge, the arm with little and the arm with much of it."""

    preference, coverage, hardness = (
        replace(config, partition=name) for name in ("preference", "coverage", "hardness")
    )
    return {
        "preference": {f"preference, omega = {x:g}": replace(preference, omega=x) for x in config.omegas},
        "coverage": {f"coverage, xi = {x:g}": replace(coverage, xi=x) for x in config.xis},
        "hardness": {f"hardness, xi' = {x:g}": replace(hardness, xi=x) for x in config.xis_hard},
    }


def build(config: Config) -> dict[str, Arm]:
    return {name: study.Study(made).fedagent() for arms in panels(config).values() for name, made in arms.items()}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    found = []
    for little, much in panels(config).values():
        found.append(results.not_below(f"{much} ends below {little}", arms[much].final(), arms[little].final()))
        found.append(results.above(f"{much} improves by training", arms[much].final(), results.start(arms[much])))
    return found


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [
        results.draw(config, {name: arms[name] for name in pair}, folder / f"{panel}.png", SHOWS, {})
        for panel, pair in panels(config).items()
    ]


RECIPE = Recipe(
    **facts("fedagent/fig4"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=3,
    claim_texts=(
        "clients that differ much in taste, number of tasks or hardness end no lower than clients that differ little",
        "such federations still improve by training",
    ),
)
