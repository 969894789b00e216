"""Table IV of Xu et al. 2024: what thirteen methods cost, how small they make the gradient, and the utility of that."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024 import _sample_set as samples
from fedrl.recipes.xu2024 import _variants as variants
from fedrl.recipes.xu2024._figure_eight import PAPER_SETTINGS, Config
from fedrl.theory import utility
from fedrl.theory.utility import TABLE_IV, TABLE_IV_K, TABLE_IV_M, TABLE_IV_PRICES, Overheads

NAMES = tuple(variants.name(row) for row in TABLE_IV)


class Found(NamedTuple):
    """Of every row: counted over the whole run, and [seeds]."""

    spent: list[Overheads]
    psi_1: np.ndarray  # [rows, seeds]
    psi_2: np.ndarray  # [seeds]
    utility: np.ndarray  # [rows, seeds], not normalised


def build(config: Config) -> dict[str, Arm]:
    arms = {name: arm._replace(snapshot=samples.parameters) for name, arm in variants.arms(config, TABLE_IV).items()}
    first = arms[NAMES[0]]
    return arms | {NAMES[0]: first._replace(snapshot=partial(samples.with_samples, first.federation))}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    found = _found(config, arms)
    psi = dict(zip(NAMES, found.psi_1, strict=True))
    worth = dict(zip(NAMES, found.utility, strict=True))
    one, ten, fifteen, _, _, from_1, *decayed, thin, dense, _, varied_thin = NAMES
    schemes = [*((name, from_1) for name in decayed), (thin, fifteen), (dense, fifteen), (varied_thin, from_1)]
    return [
        _as_printed(config, found.spent),
        *(
            curves.above(f"gradient norm of {b} is above that of {a}", psi[b], psi[a])
            for a, b in [(one, ten), (ten, fifteen), *schemes]
        ),
        *(
            curves.above(f"utility of {a} is above that of {b}", worth[a], worth[b])
            for a, b in [(fifteen, one), *schemes]
        ),
    ]


def _as_printed(config: Config, spent: list[Overheads]) -> Claim:
    """Both overhead columns, exactly, once they are brought from the iterations played to the paper's 3000."""
    printed = [utility.overheads(TABLE_IV_M, TABLE_IV_K, row.tau, row.tau_i, row.links, row.E) for row in TABLE_IV]
    share = [TABLE_IV_K / (eight.rounds(config, row.tau) * row.tau) for row in TABLE_IV]
    counted = [Overheads(*(share * count for count in row)) for share, row in zip(share, spent, strict=True)]
    same = all(np.allclose(a, b, rtol=1e-9, atol=0) for a, b in zip(counted, printed, strict=True))
    numbers = {name: list(row) for name, row in zip(NAMES, counted, strict=True)}
    text = "communication and computation overheads, counted, are those printed (C1, C2, W1, W2 in 3000 iterations)"
    return Claim(text, judge.HOLDS if same else judge.FAILS, numbers)


def _found(config: Config, arms: dict[str, Outcome]) -> Found:
    gradient = samples.norms(config, arms, NAMES[0])
    psi_1 = np.stack([gradient[name].mean(axis=0) for name in NAMES])
    psi_2 = gradient[NAMES[0]][0]
    spent = [variants.spent(arms[name]) for name in NAMES]
    cost = np.array([utility.psi_0(row, TABLE_IV_PRICES) for row in spent])
    return Found(spent, psi_1, psi_2, utility.utility(psi_2, psi_1, cost[:, None]))


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Gradient norms and normalised utilities of the rows; the printed ones as crosses."""
    found = _found(config, arms)
    norms = [judge.mean_se(row) for row in found.psi_1]
    worth = [(float(x), 0.0) for x in utility.normalised(found.utility.mean(axis=1))]
    figure, panels = style.subplots(1, 2, figsize=(11, 4.8), sharey=True)
    places = range(len(NAMES))
    for panel, here, printed, label in (
        (panels[0], norms, [row.gradient_norm for row in TABLE_IV], "expected squared gradient norm"),
        (panels[1], worth, [row.utility for row in TABLE_IV], "normalised utility"),
    ):
        mean, error = zip(*here, strict=True)
        panel.errorbar(mean, places, xerr=error, fmt="o", color=style.look(0)["color"], label="here, ± 1 s.e.")
        panel.plot(printed, places, "x", color=style.look(1)["color"], label="as printed")
        panel.set(xlabel=label)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25, linewidth=0.6)
    panels[0].set(xscale="log")
    panels[0].set_yticks(places, NAMES)
    panels[0].invert_yaxis()
    style.legend_below(figure, panels[1])
    return [style.save(figure, folder / "table4.png", f"Table IV, {config.epochs} epochs; printed: 500")]


RECIPE = Recipe(
    **facts("xu2024/table4"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=5,
    claim_texts=(
        "the overheads counted are those printed",
        "more local updates between two averagings leave a larger gradient; decay and consensus make it smaller",
        "the utility of tau = 15 is above that of tau = 1; decay and consensus raise it",
    ),
)
