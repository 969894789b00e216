"""Figure 2 of Wang et al. 2024: FedSVRPG-M and FedHAPG-M on CartPole with N = 4, 5 and 8 clients, beta = 0.2.

The printed eta = 0.05 is the published code's, whose steps are normalised and clipped; `eta` here is the constant step of
the paper's algorithm. As there, it does not depend on N and lambda = eta K.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.engines.fused import fused
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.wang2024 import _deep as deep
from fedrl.recipes.wang2024._deep import CART_POLE, METHODS


@dataclass(frozen=True)
class Config(deep.Settings):
    rounds: int = 150
    eta: float = 3e-5  # local step size for every N: the longest of those tried with which beta = 0.2 does not collapse
    eval_every: int = 10
    clients: tuple[int, ...] = (4, 5, 8)  # N, ascending; one curve each
    beta: float = 0.2  # the published scripts have 0.8
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


def build(config: Config) -> dict[str, Arm]:
    engine = fused(config.over)
    return {
        arm_name(method, count): deep.arm(CART_POLE, config, count, method, config.beta, engine)
        for method in METHODS
        for count in config.clients
    }


def arm_name(method: str, count: int) -> str:
    return f"{method}, N = {count}"


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """For each method: every N against the next larger one, and the smallest against the largest."""
    found = []
    for method in METHODS:
        for when in deep.WHEN:
            found.append(_larger(arms, method, when, itertools.pairwise(config.clients), "each larger N"))
            ends = (min(config.clients), max(config.clients))
            found.append(_larger(arms, method, when, [ends], f"N = {ends[1]}"))
    return found


def _larger(arms: dict[str, Outcome], method: str, when: str, pairs: Iterable[tuple[int, int]], which: str) -> Claim:
    """Compared seed by seed: all N share the first parameters, and larger federations contain the smaller ones."""
    verdicts, numbers = [], {}
    for few, many in pairs:
        small, large = arms[arm_name(method, few)], arms[arm_name(method, many)]
        gap, error = judge.mean_se(deep.WHEN[when](large) - deep.WHEN[when](small))
        verdicts.append(judge.sign(gap, error))
        numbers[f"N = {many} minus N = {few}"] = _numbers(small, large) | {"gap": gap, "se": error}
    return Claim(f"{method}: {which} is above the smaller {when}, by 3 SE", judge.every(verdicts), numbers)


def _numbers(small: Outcome, large: Outcome) -> dict[str, Any]:
    """In which share of the measured rounds the mean of the larger federation is the higher one."""
    above = deep.curve(large)[1].mean(axis=1) > deep.curve(small)[1].mean(axis=1)
    return {"share of rounds above": float(np.mean(above[1:]))}


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """One panel per method; bands of one standard deviation over seeds."""
    figure, axes = style.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for panel, method in zip(axes, METHODS, strict=True):
        deep.lines(panel, {f"N = {count}": arms[arm_name(method, count)] for count in config.clients})
        panel.set(title=method, xlabel="round")
    axes[0].set_ylabel(deep.RETURN)
    style.legend_below(figure, axes[0], columns=4)
    title = f"CartPole, beta = {config.beta:g}, eta = {config.eta:g}, batch {config.batch}"
    return [style.save(figure, folder / "return.png", title)]


RECIPE = Recipe(
    **facts("wang2024/fig2"),
    seeds=8,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_seeds=32,
    claim_texts=(
        "each larger N is above the next smaller one, over all rounds and at the end, for FedSVRPG-M and for FedHAPG-M",
        "the largest N is above the smallest",
    ),
)
