"""Comparing and drawing arms: normalised average speed (NAS), with the same seeds in all arms."""

from pathlib import Path
from typing import Any

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Claim, Outcome
from fedrl.plots import style


def above(text: str, better: np.ndarray, worse: np.ndarray) -> Claim:
    """By 3 standard errors."""
    gap, error = judge.mean_se(better - worse)
    return Claim(f"{text}, by 3 SE", judge.sign(gap, error), {"gap": gap, "se": error, "seeds": better.size})


def whole(outcome: Outcome) -> np.ndarray:
    """NAS of each seed, averaged over all tests: a fast learner is high here."""
    return np.asarray(outcome.curve()[1].mean(axis=0))


def line(axes: Any, index: int, name: str, epochs: np.ndarray, values: np.ndarray) -> None:
    """The mean of `values` [n, seeds] by epoch, with a band of one standard error."""
    mean, error = values.mean(axis=1), np.array([judge.mean_se(row)[1] for row in values])
    axes.plot(epochs, mean, label=name, linewidth=1.6, **style.look(index))
    if values.shape[1] > 1:
        colour = style.look(index)["color"]
        axes.fill_between(epochs, mean - error, mean + error, color=colour, alpha=0.18, linewidth=0)


def by_epoch(rounds: np.ndarray, epochs: int) -> np.ndarray:
    return np.asarray(rounds * epochs / max(rounds[-1], 1))


def draw(
    arms: dict[str, Outcome], speeds: dict[str, float], path: Path, title: str, *, epochs: int, v_ref: float
) -> Path:
    """NAS by epoch, with drivers that learn nothing beside the curves (`speeds`, m/s)."""
    figure, axes = style.axes()
    for index, (name, outcome) in enumerate(arms.items()):
        rounds, returns = outcome.curve()
        line(axes, index, name, by_epoch(rounds, epochs), returns)
    for dashes, (name, speed) in zip((":", "--", "-.", (0, (1, 4))), speeds.items(), strict=False):
        axes.axhline(speed / v_ref, color="0.5", linestyle=dashes, linewidth=1.4, label=f"{name} ({speed:.2f} m/s)")
    axes.set(xlabel="epoch", ylabel=f"normalised average speed (of {v_ref:g} m/s)")
    style.legend(axes)
    return style.save(figure, path, title)
