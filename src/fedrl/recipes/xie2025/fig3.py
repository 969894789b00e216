"""Figure 3 of Xie & Song 2025: sixty MuJoCo Hoppers of medium heterogeneity, four ways of choosing who trains."""

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xie2025 import _claims as says
from fedrl.recipes.xie2025 import _hoppers as hoppers
from fedrl.recipes.xie2025._hoppers import PAPER_SETTINGS, Config
from fedrl.recipes.xie2025._methods import BASELINES, FEDPOHCS, FOUR, POWER

LEVEL = 1450.0  # reached by FedPOHCS within 20 rounds, by Power-of-Choice after about 80 (§5.3)


def build(config: Config) -> dict[str, Arm]:
    return {name: hoppers.arm(config, name) for name in FOUR}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    soon, later = (_reached(arms[name]) for name in (FEDPOHCS, POWER))
    numbers = {FEDPOHCS: soon.tolist(), POWER: later.tolist()}
    within = judge.HOLDS if (soon <= 20).all() else judge.FAILS if config.rounds >= 20 else judge.UNDECIDED
    return [
        Claim(f"{FEDPOHCS} reaches {LEVEL:g} within 20 rounds with every seed", within, numbers),
        *(says.learns_faster(arms, FEDPOHCS, name) for name in BASELINES),
        *(says.ends_above(arms, FEDPOHCS, name) for name in BASELINES),
    ]


def _reached(outcome: Outcome) -> np.ndarray:
    """The first measured round at which each seed is at `LEVEL` or above; a million: never."""
    rounds, returns = outcome.curve()
    return np.where((returns >= LEVEL).any(axis=0), rounds[np.argmax(returns >= LEVEL, axis=0)], 1_000_000)


RECIPE = Recipe(
    **facts("xie2025/fig3"),
    seeds=1,
    config=Config,
    build=build,
    claims=claims,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=3,
    claim_texts=(
        "FedPOHCS reaches a high return within 20 rounds with every seed",
        "FedPOHCS converges faster than FedAvg, Power-of-Choice and GradientNorm",
        "FedPOHCS ends above each of them",
    ),
)
