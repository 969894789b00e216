"""Figure 1: both methods at several beta, and PAvg; which beta is best, and whose curves vary less."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrl.engines.engine import Engine
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, RecipeError
from fedrl.plots import style
from fedrl.recipes.wang2024 import _deep as deep
from fedrl.recipes.wang2024._deep import BASELINE, HAPG, METHODS, SVRPG, Task


@dataclass(frozen=True)
class Settings(deep.Settings):
    betas: tuple[float, ...] = (0.2, 0.5, 0.8)  # momentum coefficients
    clients: int = 5  # N: how many learn together


def build(config: Settings, task: Task, engine: Engine) -> dict[str, Arm]:
    if not config.betas or max(config.betas) >= 1.0:
        raise RecipeError(
            f"betas={config.betas}: expected numbers below 1; PAvg, which is beta = 1, is always included"
        )
    arms = {BASELINE: deep.arm(task, config, config.clients, BASELINE, 1.0, engine)}
    for method in METHODS:
        for beta in config.betas:
            arms[arm_name(method, beta)] = deep.arm(task, config, config.clients, method, beta, engine)
    return arms


def arm_name(method: str, beta: float) -> str:
    return f"{method}, beta = {beta:g}"


def claims(config: Settings, arms: dict[str, Outcome], best: dict[str, float]) -> list[Claim]:
    """`best` is the beta that the paper found best for each method. Everything is compared seed by seed."""
    found = []
    for method in METHODS:
        for when in deep.WHEN:
            found.append(_some_beats_baseline(config, arms, method, when))
            if best[method] in config.betas:
                found.append(_best(config, arms, method, best[method], when))
    return [*found, _narrower(config, arms), _steadier(config, arms)]


def _some_beats_baseline(config: Settings, arms: dict[str, Outcome], method: str, when: str) -> Claim:
    """Holds if one beta does, fails if every beta is below."""
    verdicts, numbers = [], {}
    for beta in config.betas:
        gap, error = _gap(arms, arm_name(method, beta), BASELINE, when)
        verdicts.append(judge.sign(gap, error))
        numbers[f"beta = {beta:g} minus {BASELINE}"] = {"gap": gap, "se": error}
    return Claim(f"{method}: some beta is above {BASELINE} {when} by 3 SE", judge.some(verdicts), numbers)


def _best(config: Settings, arms: dict[str, Outcome], method: str, best: float, when: str) -> Claim:
    others = [BASELINE, *(arm_name(method, beta) for beta in config.betas if beta != best)]
    verdicts, numbers = [], {}
    for other in others:
        gap, error = _gap(arms, arm_name(method, best), other, when)
        verdicts.append(judge.sign(gap, error))
        numbers[f"minus {other}"] = {"gap": gap, "se": error}
    text = f"{method}: beta = {best:g} is above every other beta and {BASELINE} {when} by 3 SE"
    return Claim(text, judge.every(verdicts), numbers)


def _gap(arms: dict[str, Outcome], above: str, below: str, when: str) -> tuple[float, float]:
    return judge.mean_se(deep.WHEN[when](arms[above]) - deep.WHEN[when](arms[below]))


def _narrower(config: Settings, arms: dict[str, Outcome]) -> Claim:
    """The bands of Figure 1. For each seed: how far its curve is from the mean curve, on average over rounds and beta."""
    text = f"{HAPG} varies less between seeds than {SVRPG}, by 3 SE"
    return _less(config, arms, text, lambda returns: np.abs(returns - returns.mean(axis=1, keepdims=True)))


def _steadier(config: Settings, arms: dict[str, Outcome]) -> Claim:
    """For each seed: how far one measurement is from the next, on average over rounds and beta."""
    text = f"{HAPG} varies less from one measurement to the next than {SVRPG}, by 3 SE"
    return _less(config, arms, text, lambda returns: np.abs(np.diff(returns, axis=0)))


def _less(config: Settings, arms: dict[str, Outcome], text: str, distance: Callable[[np.ndarray], np.ndarray]) -> Claim:
    """Is `distance`, of returns [n, seeds], smaller for FedHAPG-M? Curves that learn nothing vary little: see the means."""

    def found(method: str) -> list[np.ndarray]:
        return [deep.curve(arms[arm_name(method, beta)])[1] for beta in config.betas]

    varies = {method: np.mean([distance(x).mean(axis=0) for x in found(method)], axis=0) for method in METHODS}
    gap, error = judge.mean_se(varies[SVRPG] - varies[HAPG])
    numbers = {
        method: {"varies by": float(varies[method].mean()), "mean return": float(np.mean(found(method)))}
        for method in METHODS
    }
    return Claim(text, judge.sign(gap, error), numbers | {"difference": {"gap": gap, "se": error}})


def draw(config: Settings, arms: dict[str, Outcome], folder: Path, task: Task) -> list[Path]:
    """One panel per method, as in the paper; bands of one standard deviation over seeds."""
    figure, axes = style.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for panel, method in zip(axes, METHODS, strict=True):
        names = [BASELINE, *(arm_name(method, beta) for beta in config.betas)]
        deep.lines(panel, {name.removeprefix(f"{method}, "): arms[name] for name in names})
        panel.set(title=method, xlabel="round")
    axes[0].set_ylabel(deep.RETURN)
    style.legend_below(figure, axes[0], columns=4)
    title = f"{task.name}, N = {config.clients}, eta = {config.eta:g}, batch {config.batch}"
    return [style.save(figure, folder / "return.png", title)]
