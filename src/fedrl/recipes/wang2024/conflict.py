"""Where momentum helps against drift, where two step sizes do as well, and where neither does: random MDPs that conflict.

The worlds are those of Table 2 at kappa = 0, with gamma = 0.5 and rewards r + c z for half of the clients, r - c z for the
others: the conflict c changes what each client wants and leaves the value of every common policy as it is. Longer episodes
change that value by less than 7 %, but make importance weights noisier.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jax import Array
from matplotlib.axes import Axes

from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite, random_mdp
from fedrl.exact_objective import exact_objective
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe, RecipeError
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.wang2024 import _deep as deep
from fedrl.recipes.wang2024 import _drift
from fedrl.recipes.wang2024._deep import BASELINE
from fedrl.recipes.wang2024._drift import TWO_STEPS, Kind, gap, label, numbers, some_above

GAMMA = 0.5
MOMENTUM, BOTH, STEPS, NEITHER = "momentum", "both", "two steps", "neither"


@dataclass(frozen=True)
class Config(_drift.Settings):
    betas: tuple[float, ...] = (0.2, 0.05)  # of FedSVRPG-M
    hessian_betas: tuple[float, ...] = (0.05,)  # of FedHAPG-M
    clients: int = 4  # N: how many learn together; an even number
    local_steps: tuple[int, ...] = (2, 8, 32)  # K: steps between two rounds
    horizons: tuple[int, ...] = (4, 16)  # H: steps of an episode
    conflicts: tuple[float, ...] = (0.0, 1.0, 3.0)  # c: how far apart rewards are; they differ by 2 c at most
    eval_every: int = 8


class Cell(NamedTuple):
    conflict: float
    horizon: int
    local_steps: int

    def __str__(self) -> str:
        return f"c = {self.conflict:g}, H = {self.horizon}, K = {self.local_steps}"


def cells(config: Config) -> list[Cell]:
    return [Cell(*it) for it in itertools.product(config.conflicts, config.horizons, config.local_steps)]


def momentum(config: Config) -> list[Kind]:
    return _drift.momentum(config.betas, config.hessian_betas)


def build(config: Config) -> dict[str, Arm]:
    if config.clients % 2:
        raise RecipeError(f"clients={config.clients}: choose an even number, so that rewards have the mean r")
    kinds = (Kind(BASELINE), Kind(TWO_STEPS), *momentum(config))
    return {arm_name(kind, cell): _arm(config, kind, cell) for kind in kinds for cell in cells(config)}


def arm_name(kind: Kind, cell: Cell) -> str:
    return f"{label(kind)}, {cell}"


def _arm(config: Config, kind: Kind, cell: Cell) -> Arm:
    def draw(key: Key, client_id: Array, conflict: Array) -> finite.MDP:
        return random_mdp.conflicting(random_mdp.dense(5, 5, 0.0), conflict)(key, client_id)

    federation = Federation(finite.environment(5, 5, GAMMA), draw, clients=config.clients, settings=(cell.conflict,))
    method = _drift.method(config, kind, local_steps=cell.local_steps, horizon=cell.horizon)
    return Arm(method, federation, config.rounds, fused(config.over), exact_objective(), config.eval_every)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """Compared seed by seed: the same worlds."""
    most = Cell(max(config.conflicts), min(config.horizons), max(config.local_steps))
    found = []
    for when, of in deep.WHEN.items():
        values = {name: of(outcome) for name, outcome in arms.items()}
        found += [
            _some_helps(config, values, most, when),
            _nowhere_above(config, values, TWO_STEPS, cells(config), when),
            _nowhere_above(config, values, BASELINE, [it for it in cells(config) if not it.conflict], when),
        ]
    return found


def _some_helps(config: Config, values: dict[str, np.ndarray], cell: Cell, when: str) -> Claim:
    """Where drift is strongest and weights are tamest. One method that is above settles it."""
    gaps = {label(kind): above(values, kind, BASELINE, cell) for kind in momentum(config)}
    return some_above(f"at {cell} some momentum is above {BASELINE} {when}, by 3 SE", gaps)


def _nowhere_above(config: Config, values: dict[str, np.ndarray], plain: str, where: list[Cell], when: str) -> Claim:
    """Fails if one momentum is above in one cell; holds if all are below, or up to 1 % above, in all cells."""
    verdicts, gaps = [], {}
    for cell, kind in itertools.product(where, momentum(config)):
        mean, error = gaps[arm_name(kind, cell)] = above(values, kind, plain, cell)
        margin = 0.01 * float(values[arm_name(Kind(plain), cell)].mean())
        verdicts.append(
            judge.FAILS if judge.sign(mean, error) == judge.HOLDS else judge.inside(mean, error, -np.inf, margin)
        )
    text = f"momentum is nowhere above {plain} {when}{'' if plain == TWO_STEPS else ' where rewards are alike'}"
    return Claim(text, judge.every(verdicts), numbers(gaps))


def above(values: dict[str, np.ndarray], kind: Kind, plain: str, cell: Cell) -> tuple[float, float]:
    return gap(values[arm_name(kind, cell)], values[arm_name(Kind(plain), cell)])


def helps(config: Config, values: dict[str, np.ndarray], cell: Cell) -> str:
    """What is above PAvg here by three standard errors; "both" if momentum is, but not above two step sizes."""

    def is_above(kind: Kind, plain: str) -> bool:
        return judge.sign(*above(values, kind, plain, cell)) == judge.HOLDS

    kinds = [kind for kind in momentum(config) if is_above(kind, BASELINE)]
    if any(is_above(kind, TWO_STEPS) for kind in kinds):
        return MOMENTUM
    if is_above(Kind(TWO_STEPS), BASELINE):
        return BOTH if kinds else STEPS
    return MOMENTUM if kinds else NEITHER


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Final J minus PAvg's against K; a row for each horizon, a column for each conflict; above, what helps."""
    values = {name: outcome.final() for name, outcome in arms.items()}
    rows, columns = len(config.horizons), len(config.conflicts)
    figure, axes = style.subplots(
        rows, columns, figsize=(3.4 * columns, 2.9 * rows + 0.6), sharex=True, sharey="row", squeeze=False
    )
    for row, horizon in zip(axes, config.horizons, strict=True):
        for panel, conflict in zip(row, config.conflicts, strict=True):
            _panel(panel, config, values, [Cell(conflict, horizon, steps) for steps in config.local_steps])
            panel.set_title(f"conflict c = {conflict:g}, horizon H = {horizon}", fontsize="medium", pad=16)
        row[0].set_ylabel("final J minus PAvg's (± 3 s.e.)")
    for panel in axes[-1]:
        panel.set_xlabel("local steps K")
    style.legend_below(figure, axes[0, 0], columns=4)
    title = f"Above each K: what beats {BASELINE} by 3 s.e.; both: momentum too, but it does not beat two step sizes"
    return [style.save(figure, folder / "conflict.png", title)]


def _panel(panel: Axes, config: Config, values: dict[str, np.ndarray], row: list[Cell]) -> None:
    places = np.arange(len(row))
    for index, kind in enumerate((Kind(TWO_STEPS), *momentum(config))):
        mean, error = zip(*(above(values, kind, BASELINE, cell) for cell in row), strict=True)
        panel.errorbar(
            places + 0.06 * index, mean, judge.ERRORS * np.asarray(error), capsize=3, marker="o", ms=4,
            label=label(kind), **style.look(index),
        )  # fmt: skip
    for place, cell in zip(places, row, strict=True):
        panel.annotate(
            helps(config, values, cell), (float(place), 1.02), xycoords=panel.get_xaxis_transform(), ha="center",
            fontsize="small", color="grey",
        )  # fmt: skip
    panel.axhline(0.0, color="grey", linestyle=":", label=BASELINE)
    panel.set_xticks(places, [str(cell.local_steps) for cell in row])
    deep.quiet(panel)


RECIPE = Recipe(
    **facts("wang2024/conflict"),
    seeds=16,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=(
        "with the strongest conflict, most local steps and shortest episodes some momentum is above PAvg",
        "momentum is nowhere above PAvg with two step sizes",
        "where rewards are alike, momentum is nowhere above PAvg",
    ),
)
