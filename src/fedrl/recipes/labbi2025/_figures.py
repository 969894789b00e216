"""The figures of Labbi et al. 2025, drawn from logs."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from fedrl.experiments.recipe import Outcome
from fedrl.plots import style
from fedrl.recipes.labbi2025._family import FED_Q, FEDPG, Task
from fedrl.recipes.labbi2025._speed_up import Settings, arm_name, control_name, ends

COLOURS = ("#4477AA", "#228833", "#CC6677", "#AA3377", "#CCBB44")
MARKERS: dict[str, str] = dict(zip((*FEDPG, FED_Q), ("x", "o", "^", "s"), strict=True))  # the paper's


def speed_up(config: Settings, arms: dict[str, Outcome], folder: Path, task: Task) -> list[Path]:
    """A column for each variant; above J as in the paper, below how much of what can be learnt is still missing."""
    figure, axes = style.subplots(2, 3, figsize=(11, 6.4), sharex=True, sharey="row")
    for (top, bottom), method in zip(axes.T, FEDPG, strict=True):
        top.set(title=method, xscale="log", yscale="log")
        bottom.set(xlabel="round", yscale="log")
        for count, colour in zip(config.clients, COLOURS, strict=False):
            limits = ends(config, task, count)
            rounds, returns = _learning(arms[arm_name(method, count)])
            _line(top, rounds, returns, colour, f"M = {count}, step {config.eta * count:g}")
            _line(bottom, rounds, 1.0 - limits.share(returns), colour)
            top.axhline(limits.best, color=colour, linewidth=0.8, linestyle=":")
        if config.control:
            rounds, returns = _learning(arms[control_name(method, config)])
            few, many = min(config.clients), max(config.clients)
            _line(top, rounds, returns, "0.5", f"M = {few}, step {config.eta * many:g}")
            _line(bottom, rounds, 1.0 - ends(config, task, few).share(returns), "0.5")
    lowest = min(line.get_ydata().min() for axis in axes[1] for line in axis.get_lines())
    axes[1, 0].set_ylim(bottom=max(0.5 * lowest, 1e-5))
    axes[0, 0].set_ylabel("J (dotted: best deterministic)")
    axes[1, 0].set_ylabel("share of J still missing")
    axes[0, 0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
    axes[0, 0].yaxis.set_major_formatter(ScalarFormatter())
    axes[0, 0].yaxis.set_minor_formatter(NullFormatter())
    style.legend_below(figure, axes[0, 0])
    return [style.save(figure, folder / "return.png", f"{task.name}, epsilon = {config.epsilon:g}")]


def gate(arms: dict[str, Outcome], folder: Path, title: str, lines: dict[str, float]) -> list[Path]:
    """J of every arm on linear axes, as in Figures 1b and 1c, and horizontal `lines` at known values."""
    figure, axes = style.subplots(figsize=(7, 4.5))
    seen = list(lines.values())
    for shift, ((name, outcome), colour) in enumerate(zip(arms.items(), COLOURS, strict=False)):
        rounds, returns = outcome.curve()
        apart = max(len(rounds) // 12, 1)
        places = (shift * apart // 4, apart)  # so that curves that coincide can be told apart
        _line(axes, rounds, returns, colour, name, marker=MARKERS.get(name), markevery=places, markersize=5)
        seen += returns.mean(axis=1)[1:].tolist()
    for (name, value), dashes in zip(lines.items(), ("--", ":", "-."), strict=False):
        axes.axhline(value, color="0.2", linewidth=1.0, linestyle=dashes, label=f"{name}: {value:.4g}")
    margin = 0.05 * (max(seen) - min(seen))  # round 0 may lie outside: Fed-Q-learning starts with an arbitrary action
    axes.set(xlabel="round", ylabel="J", ylim=(min(seen) - margin, max(seen) + margin))
    style.legend(axes)
    return [style.save(figure, folder / "return.png", title)]


def _learning(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """The curve without round 0, which a logarithmic axis has no place for."""
    rounds, returns = outcome.curve()
    return rounds[1:], returns[1:]


def _line(
    axes: Axes, rounds: np.ndarray, values: np.ndarray, colour: str, label: str | None = None, **options: Any
) -> None:
    """Mean over seeds with a band of one standard deviation, as in the paper."""
    mean, spread = values.mean(axis=1), values.std(axis=1)
    axes.plot(rounds, mean, color=colour, label=label, linewidth=1.4, **options)
    axes.fill_between(rounds, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
