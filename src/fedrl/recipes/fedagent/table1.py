"""Table 1 of FedAgent (paper 002): federated agents against a centralised one and against three clients on their own."""

import math
from dataclasses import dataclass

import numpy as np

from fedrl.recipes import judging
from fedrl.recipes.fedagent import _study as study
from fedrl.recipes.fedagent._study import LOCAL
from fedrl.recipes.fedagent._study import PAPER_SIZE as PAPER_SIZE
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "FedAgent (paper 002), Table 1"
SHOWS = "do language agents that train together beat those that train alone, and match a centralised one?"
MINUTES = 60.0
SEEDS = 2
PAPER_SEEDS = 3

FEDERATED, CENTRALISED = "FedAgent", "Centralised"


@dataclass(frozen=True)
class Config(study.Config):
    rounds: int = 20
    every: int = 5


def _alone(client: int) -> str:
    return f"Local, client {client}"


def build(config: Config) -> dict[str, Arm]:
    made = study.Study(config)
    alone = {_alone(client): made.local(client) for client in LOCAL}
    return {FEDERATED: made.fedagent(), CENTRALISED: made.centralised()} | alone


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """By success on held-out tasks at the end; seeds are shared between the arms."""
    final = {name: outcome.final() for name, outcome in arms.items()}
    alone = np.mean([final[_alone(client)] for client in LOCAL], axis=0)
    gap, error = judging.mean_se(final[FEDERATED] - final[CENTRALISED])
    return [
        study.above(f"{FEDERATED} ends above the mean of the local clients", final[FEDERATED], alone),
        Claim(f"{FEDERATED} is within 3 SE of {CENTRALISED}, or above", _near(gap, error), {"gap": gap, "se": error}),
        study.above(
            f"{FEDERATED} ends above the model it started from", final[FEDERATED], study.start(arms[FEDERATED])
        ),
    ]


def _near(gap: float, error: float) -> str:
    """Not below by more than three standard errors; one seed has none."""
    if math.isnan(error):
        return judging.UNDECIDED
    return judging.FAILS if gap < -judging.ERRORS * error else judging.HOLDS
