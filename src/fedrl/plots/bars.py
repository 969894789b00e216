"""Final returns side by side: one bar per arm, with its interval, one colour per run, one panel per environment."""

from pathlib import Path
from typing import Any

from fedrl.plots import style

Finals = dict[tuple[str, str], tuple[float, float | None]]  # (run, arm) -> mean, half the width of the interval


def draw(panels: dict[str, Finals], path: Path, *, title: str = "") -> Path:
    """A panel with an axis of its own for each entry, runs from top to bottom in it with a gap between them.

    A bar without an interval has a single seed.
    """
    runs = list(dict.fromkeys(run for finals in panels.values() for run, _ in finals))
    figure, grid = style.panels([1.3 + 0.34 * (_places(finals)[-1] + 1) for finals in panels.values()])
    for axes, (name, finals) in zip(grid, panels.items(), strict=True):
        _onto(axes, finals, runs)
        axes.set(xlabel="final return, mean over clients")
        if len(panels) > 1:
            axes.set_title(name, loc="left", fontsize="medium")
    if len(runs) > 1:
        style.legend_below(figure, *grid)
    return style.save(figure, path, title)


def _places(finals: Finals) -> list[float]:
    runs = list(dict.fromkeys(run for run, _ in finals))
    return [index + 0.6 * runs.index(run) for index, (run, _) in enumerate(finals)]


def _onto(axes: Any, finals: Finals, runs: list[str]) -> None:
    places = _places(finals)
    axes.grid(visible=False, axis="y")
    for place, ((run, _), (mean, half)) in zip(places, finals.items(), strict=True):
        first = place == min(p for p, (r, _) in zip(places, finals, strict=True) if r == run)
        colour = style.look(runs.index(run))["color"]
        axes.barh(place, mean, height=0.7, color=colour, alpha=0.75, label=run if first else None)
        if half is not None:
            axes.errorbar(mean, place, xerr=half, color=style.look(6)["color"], linewidth=1.1, capsize=3)
        edge = mean + (half or 0.0) if mean >= 0 else mean - (half or 0.0)
        side = 1 if mean >= 0 else -1
        axes.annotate(f"{mean:#.4g}", (edge, place), (4 * side, 0), textcoords="offset points", va="center",
                      ha="left" if side > 0 else "right", fontsize="small")  # fmt: skip
    axes.set_yticks(places, [arm or run for run, arm in finals])
    axes.invert_yaxis()
    axes.margins(x=0.12)
