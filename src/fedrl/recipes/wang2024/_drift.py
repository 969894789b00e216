"""Shared by the recipes about client drift: momentum, PAvg, and PAvg with two step sizes, on MDPs solved exactly."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedrl.algorithms.fedavg import pavg
from fedrl.experiments import judge
from fedrl.experiments.recipe import Claim, Outcome
from fedrl.federations.federation import Method
from fedrl.recipes.wang2024._deep import BASELINE, HAPG, METHODS, SVRPG
from fedrl.records import log

TWO_STEPS = "PAvg, two step sizes"


@dataclass(frozen=True)
class Settings:
    eta: float = 0.2  # local step size of all arms; with two step sizes, of the K local steps together
    rounds: int = 96  # R: rounds of communication
    batch: int = 16  # episodes per local step
    first_batch: int = 2000  # B: episodes per client behind u_0
    eval_every: int = 4  # rounds between measurements
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


class Kind(NamedTuple):
    """A method with momentum, PAvg, or PAvg whose clients take K steps of eta / K and whose server takes `far` K.

    Two step sizes are the usual remedy for drift (Karimireddy et al. 2020): clients stay K times closer to theta_r, and with
    `far` = 1 the server moves as it does with momentum, by eta K times the mean direction.
    """

    name: str
    beta: float = 1.0
    far: float = 1.0


def label(kind: Kind) -> str:
    if kind.name in METHODS:
        return f"{kind.name}, beta = {kind.beta:g}"
    return kind.name if kind.far == 1.0 else f"{kind.name}, {kind.far:g} times as far"


def method(config: Settings, kind: Kind, *, local_steps: int, horizon: int) -> Method:
    common: dict[str, Any] = {"local_steps": local_steps, "horizon": horizon, "batch": config.batch}
    if kind.name == BASELINE:
        return pavg(eta=config.eta, **common)
    if kind.name == TWO_STEPS:
        return pavg(eta=config.eta / local_steps, server_step=kind.far * local_steps, **common)
    return METHODS[kind.name](beta=kind.beta, eta=config.eta, first_batch=config.first_batch, **common)


def gap(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """Mean difference seed by seed and its standard error; NaN if no two seeds differ, which decides nothing."""
    mean, error = judge.mean_se(above - below)
    return mean, error if error > 0.0 else float("nan")


def momentum(betas: Iterable[float], hessian_betas: Iterable[float]) -> list[Kind]:
    return [Kind(SVRPG, beta) for beta in betas] + [Kind(HAPG, beta) for beta in hessian_betas]


Gaps = dict[str, tuple[float, float]]  # by name: a difference and its standard error


def some_above(text: str, gaps: Gaps) -> Claim:
    """One that is above settles it; if all are below, it does not hold."""
    return Claim(text, judge.some(judge.sign(*it) for it in gaps.values()), numbers(gaps))


def every_above(text: str, gaps: Gaps) -> Claim:
    return Claim(text, judge.every(judge.sign(*it) for it in gaps.values()), numbers(gaps))


def numbers(gaps: Gaps) -> dict[str, dict[str, float]]:
    return {name: {"gap": mean, "se": error} for name, (mean, error) in gaps.items()}


def squared_gradients(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Rounds, and ||grad J(theta)||^2 [n, seeds], which the theorems bound; arms are measured by `exact_objective()`."""
    rounds, norms = log.columns(outcome.rows, "gradient_norm_by_seed")
    return rounds, np.square(norms)
