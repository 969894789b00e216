"""Figure 3 of Xie & Song 2025: sixty MuJoCo Hoppers of medium heterogeneity, four ways of choosing who trains."""

import numpy as np

from fedrl.recipes import judging
from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.recipes.xie2025 import _claims as says
from fedrl.recipes.xie2025 import _hoppers as hoppers
from fedrl.recipes.xie2025._hoppers import PAPER_SIZE as PAPER_SIZE
from fedrl.recipes.xie2025._hoppers import Config as Config
from fedrl.recipes.xie2025._methods import BASELINES, FEDPOHCS, FOUR, POWER

PAPER = "Xie & Song 2025, Fig. 3"
SHOWS = "does choosing clients by FedPOHCS speed up learning on MuJoCo Hoppers?"
MINUTES = 4.0
SEEDS = 1
PAPER_SEEDS = 3

LEVEL = 1450.0  # reached by FedPOHCS within 20 rounds, by Power-of-Choice after about 80 (§5.3)


def build(config: Config) -> dict[str, Arm]:
    return {name: hoppers.arm(config, name) for name in FOUR}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    soon, later = (_reached(arms[name]) for name in (FEDPOHCS, POWER))
    numbers = {FEDPOHCS: soon.tolist(), POWER: later.tolist()}
    within = judging.HOLDS if (soon <= 20).all() else judging.FAILS if config.rounds >= 20 else judging.UNDECIDED
    return [
        Claim(f"{FEDPOHCS} reaches {LEVEL:g} within 20 rounds with every seed", within, numbers),
        *(says.learns_faster(arms, FEDPOHCS, name) for name in BASELINES),
        *(says.ends_above(arms, FEDPOHCS, name) for name in BASELINES),
    ]


def _reached(outcome: Outcome) -> np.ndarray:
    """The first measured round at which each seed is at `LEVEL` or above; a million: never."""
    rounds, returns = outcome.curve()
    return np.where((returns >= LEVEL).any(axis=0), rounds[np.argmax(returns >= LEVEL, axis=0)], 1_000_000)
