"""Figure 2 of FedAgent: what clients and server can do after every round, beside centralised training."""

from pathlib import Path

import numpy as np

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.plots import curves, style
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _config as shared
from fedrl.recipes.fedagent import _results as results
from fedrl.recipes.fedagent import _study as study
from fedrl.recipes.fedagent._config import PAPER_SETTINGS

SHOWS = facts("fedagent/fig2")["shows"]

Config = shared.Config
SERVER, CENTRALISED = "FedAgent, server", "Centralised"
EARLY = 120 / 210  # of training, "until approximately epoch 120"


def build(config: Config) -> dict[str, Arm]:
    made = study.Study(config)
    return {SERVER: made.fedagent(evaluate_clients=True)._replace(eval_every=1), CENTRALISED: made.centralised()}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    server, together = arms[SERVER], arms[CENTRALISED]
    found = [
        results.above(f"{SERVER} ends above the model it started from", server.final(), results.start(server)),
        results.near("both end with similar success", server.final(), together.final()),
    ]
    if config.application == "webshop":
        early = {name: _early(outcome) for name, outcome in arms.items()}
        found.append(results.above("centralised is ahead at first", early[CENTRALISED], early[SERVER]))
    return found


def _early(outcome: Outcome) -> np.ndarray:
    """Mean success over what was measured in the first 120 of 210 epochs, if only once, [seeds]."""
    rounds, success = outcome.curve()
    early: np.ndarray = success[(rounds > 0) & (rounds <= max(EARLY * rounds[-1], rounds[1]))].mean(axis=0)
    return early


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Lines: mean over seeds. Circles: the first seed's clients when they have trained, one colour a client."""
    figure, axes = style.axes(8.0)
    per_round = {SERVER: config.local_epochs, CENTRALISED: 1}
    curves.onto(axes, {name: outcome.rows for name, outcome in arms.items()}, per_round, results.AXES)
    visits = [row for row in arms[SERVER].rows if "train/locals_by_seed" in row]
    for row in visits:
        for client, (success, _) in zip(row["train/clients_by_seed"][0], row["train/locals_by_seed"][0], strict=True):
            colour = style.COLOURS[int(client) % len(style.COLOURS)]
            axes.plot(row["round"] * config.local_epochs, success, "o", color=colour, markersize=4, alpha=0.6)
    style.legend(axes)
    return [style.save(figure, folder / "dynamics.png", f"{SHOWS} Circles: clients of the first seed.")]


RECIPE = Recipe(
    **facts("fedagent/fig2"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=3,
    claim_texts=(
        "the server's model ends above the model it started from",
        "federated and centralised training end with similar success",
        "centralised training is ahead at first (WebShop)",
    ),
)
