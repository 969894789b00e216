"""A learnt controller against human traffic on Figure Eight: ours, in the traffic of Xu et al. 2024, Section VII.

The paper's figures compare methods, and its agents end below human drivers (`docs/reproductions/xu2024.md`). Here agents can
command 3 m/s^2, as in Flow's benchmark, look 20 s ahead instead of one, and explore in one direction for 2 s at a time. They
are tested as they act in training, like those of the other figures.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrl.algorithms.fmarl import fmarl
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xu2024 import _drivers as drivers
from fedrl.recipes.xu2024 import _figure_eight as eight

FIRL = "FIRL"


@dataclass(frozen=True)
class Config(eight.Config):
    """Chosen on other seeds than those of a run; `docs/reproductions/xu2024.md` has every setting that was tried."""

    epochs: int = 120  # U: epochs of training
    acceleration: float = 3.0  # m/s^2 for an action of 1
    relative: bool = True  # agents observe gaps to their neighbours instead of their neighbours' positions
    gamma: float = 0.995  # discount factor of a step of 0.1 s
    gae_lambda: float = 0.98  # of generalised advantage estimation
    last: float = 0.01  # factor on the first weights of the last layer, of actor and critic
    log_std: float = -1.0  # logarithm of the standard deviation of actions at first
    hold: int = 20  # steps for which an agent's deviation from its mean action stays the same
    test_every: int = 20  # epochs between two tests


def build(config: Config) -> dict[str, Arm]:
    return {FIRL: eight.arm(config, fmarl(eight.learner(config), tau=1))}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    learnt = eight.SPEED * arms[FIRL].final()
    return [
        _above(f"a learnt controller ends above {name}", learnt, speeds)
        for name, speeds in drivers.speeds(config.length, config.acceleration).items()
    ]


def _above(text: str, learnt: np.ndarray, speeds: np.ndarray) -> Claim:
    """In m/s; the error is that of the learnt controller's seeds and of the driver's epochs."""
    gap, error = judge.difference(learnt, speeds)
    numbers = {"gap": gap, "se": error, "learnt": float(learnt.mean()), "driver": float(speeds.mean())}
    return Claim(f"{text}, by 3 SE", judge.sign(gap, error), numbers | {"seeds": learnt.size})


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [eight.draw(config, arms, folder / "speed.png", "A learnt controller against human traffic")]


RECIPE = Recipe(
    **facts("xu2024/controllers"),
    seeds=16,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=(
        "a learnt controller ends above human drivers alone",
        "… above agents that always accelerate",
        "… above a platoon written by hand",
    ),
)
