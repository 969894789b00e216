"""Figures 5 to 16 of FedAgent: who has which tasks under each partition. Nothing is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _study as study
from fedrl.recipes.fedagent import fig4

DRAWS = 5  # of every partition, for the claims


@dataclass(frozen=True)
class Config(fig4.Config):
    tasks_each: int = 100


def build(config: Config) -> dict[str, Arm]:
    return {}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """Clients differ more at the setting that is said to be the more heterogeneous, over several draws of each partition."""
    found = []
    for challenge, pair in fig4.panels(config).items():
        low, high = pair
        little, much = (_spreads(study.Study(pair[name]), challenge) for name in pair)
        gap, error = judge.difference(much, little)
        numbers = {"much": much.mean(), "little": little.mean(), "se": error, "draws": DRAWS}
        found.append(Claim(f"clients differ more at {high} than at {low}, by 3 SE", judge.sign(gap, error), numbers))
    return found


def _spreads(made: study.Study, challenge: str) -> np.ndarray:
    """Standard deviation over clients of what the challenge is about, for each draw of the partition."""
    of = _measured(made, challenge)
    return np.array([np.mean(np.std([of(mine) for mine in made.parts(seed)], axis=0)) for seed in range(DRAWS)])


def _measured(made: study.Study, challenge: str) -> Callable[[np.ndarray], np.ndarray]:
    """(a client's tasks) -> the share of each category, their number, or the share that is solved."""
    if challenge == "coverage":
        return lambda mine: np.array(len(mine))
    if challenge == "hardness":
        solved = made.solved()
        return lambda mine: solved[mine].mean()
    labels = np.array(made.application.categories)
    kinds = np.unique(labels)
    return lambda mine: np.array([np.mean(labels[mine] == kind) for kind in kinds])


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    from fedrl.llm.partitions import figures

    drawn = []
    for challenge, pair in fig4.panels(config).items():
        studies = {name: study.Study(made) for name, made in pair.items()}
        parts = {name: made.parts() for name, made in studies.items()}
        one, path = next(iter(studies.values())), folder / f"{challenge}.png"
        title = f"{config.application}: {challenge}"
        if challenge == "preference":
            drawn.append(figures.categories_of_clients(parts, one.application.categories, path, title=title))
        elif challenge == "coverage":
            drawn.append(figures.sizes_of_clients(parts, path, title=title))
        else:
            drawn.append(figures.success_of_clients(parts, one.solved(), path, title=title))
    return drawn


RECIPE = Recipe(
    **facts("fedagent/partitions"),
    seeds=1,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=(
        "clients differ more at the setting that is said to be the more heterogeneous, for each of the three partitions",
    ),
)
