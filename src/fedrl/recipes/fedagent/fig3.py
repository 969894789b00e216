"""Figure 3 of FedAgent: tasks of a client, clients in a round, epochs of a client in a round."""

from dataclasses import dataclass, replace
from pathlib import Path

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe, RecipeError
from fedrl.recipes import facts
from fedrl.recipes.fedagent import _config as shared
from fedrl.recipes.fedagent import _results as results
from fedrl.recipes.fedagent import _study as study
from fedrl.recipes.fedagent._config import PAPER_SETTINGS

SHOWS = facts("fedagent/fig3")["shows"]


@dataclass(frozen=True)
class Config(shared.Config):
    samples: tuple[int, ...] = (1, 5, 10)  # tasks of a client, in multiples of tasks_each
    selected: tuple[int, ...] = (1, 2, 4)  # clients in a round
    epochs: tuple[int, ...] = (1, 3, 5)  # of a client in a round; all arms have as many in all


Panels = dict[str, dict[str, Config]]


def panels(config: Config) -> Panels:
    """The arms of each panel; the config itself is in all of them under one name or another."""
    total = config.rounds * config.local_epochs
    if min(len(set(config.samples)), len(set(config.epochs))) < 2:
        raise RecipeError(
            f"samples and epochs need at least two values each to compare, got {config.samples} and {config.epochs}"
        )
    if uneven := [e for e in config.epochs if total % e]:
        raise RecipeError(
            f"{total} epochs in all (rounds x local_epochs) cannot be rounds of {uneven[0]}; change rounds or epochs"
        )
    return {
        "samples": {
            f"{n * config.tasks_each} tasks a client": replace(config, tasks_each=n * config.tasks_each)
            for n in config.samples
        },
        "selected": {f"{m} clients a round": replace(config, per_round=m) for m in config.selected},
        "epochs": {
            f"{e} epochs a round": replace(
                config,
                local_epochs=e,
                rounds=total // e,
                eval_every=max(1, config.eval_every * config.local_epochs // e),
            )
            for e in config.epochs
        },
    }


def build(config: Config) -> dict[str, Arm]:
    """Arms that are the same in two panels are trained once, under the first name."""
    return {name: study.Study(made).fedagent() for made, name in _names(config).items()}


def _names(config: Config) -> dict[Config, str]:
    found: dict[Config, str] = {}
    for arms in panels(config).values():
        for name, made in arms.items():
            found.setdefault(made, name)
    return found


def _outcomes(config: Config, arms: dict[str, Outcome]) -> dict[str, dict[str, Outcome]]:
    names = _names(config)
    return {panel: {name: arms[names[made]] for name, made in all.items()} for panel, all in panels(config).items()}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    by_panel = _outcomes(config, arms)
    few, *_, many = (outcome.final() for outcome in by_panel["epochs"].values())
    least, *_, most = (outcome.final() for outcome in by_panel["samples"].values())
    found = [
        results.above(f"{config.epochs[-1]} epochs a round end above {config.epochs[0]}", many, few),
        results.near("the number of tasks of a client does not matter", most, least),
    ]
    if config.application == "household" and 2 in config.selected:
        final = {m: outcome.final() for m, outcome in zip(config.selected, by_panel["selected"].values(), strict=True)}
        found += [
            results.above(f"2 clients a round end above {m}", final[2], final[m]) for m in config.selected if m != 2
        ]
    return found


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    configs = panels(config)
    return [
        results.draw(
            config,
            outcomes,
            folder / f"{panel}.png",
            SHOWS,
            {name: configs[panel][name].local_epochs for name in outcomes},
        )
        for panel, outcomes in _outcomes(config, arms).items()
    ]


RECIPE = Recipe(
    **facts("fedagent/fig3"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=3,
    claim_texts=(
        "more local epochs a round end higher",
        "the number of tasks of a client does not matter",
        "two clients a round end above one and four (household)",
    ),
)
