"""Table 1 of FedAgent: federated agents against a centralised one and against three clients on their own."""

from pathlib import Path

import numpy as np

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _config as shared
from fedrl.recipes.fedagent import _results as results
from fedrl.recipes.fedagent import _study as study
from fedrl.recipes.fedagent._config import PAPER_SETTINGS
from fedrl.recipes.fedagent._study import LOCAL

SHOWS = facts("fedagent/table1")["shows"]

FEDERATED, CENTRALISED = "FedAgent", "Centralised"


Config = shared.Config


def _alone(client: int) -> str:
    return f"Local, client {client}"


def build(config: Config) -> dict[str, Arm]:
    made = study.Study(config)
    alone = {_alone(client): made.local(client) for client in LOCAL}
    return {FEDERATED: made.fedagent(), CENTRALISED: made.centralised()} | alone


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    final = {name: outcome.final() for name, outcome in arms.items()}
    alone = np.mean([final[_alone(client)] for client in LOCAL], axis=0)
    together = final[FEDERATED]
    return [
        results.above(f"{FEDERATED} ends above the mean of the local clients", together, alone),
        results.within_noise(f"{FEDERATED} matches {CENTRALISED}", together, final[CENTRALISED]),
        results.above(f"{FEDERATED} ends above the model it started from", together, results.start(arms[FEDERATED])),
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """The curves, and the table as the paper has it."""
    path = results.draw(config, arms, folder / "success.png", SHOWS, dict.fromkeys(set(arms) - {FEDERATED}, 1))
    return [path, results.table(arms, folder / "table1.md")]


RECIPE = Recipe(
    **facts("fedagent/table1"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=3,
    claim_texts=(
        "FedAgent ends above the mean of the local clients",
        "FedAgent matches centralised training",
        "FedAgent ends above the model it started from",
    ),
)
