"""Learning curves from logs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.plots import style
from fedrl.records import log
from fedrl.records.log import Row

X_AXES: dict[str, tuple[str, Callable[[Row], float]]] = {  # name -> its label, and its value in a row
    "rounds": ("round", lambda row: row["round"]),
    "steps": ("environment steps, all clients", lambda row: row["env_steps"]),
    "bytes": ("bytes sent, all clients", lambda row: sum(row[f"bytes_{way}"] for way in ("up", "down", "peer"))),
    "seconds": ("seconds", lambda row: row["seconds"]),
}


def draw(
    rows_of: dict[str, list[Row]],
    path: Path,
    *,
    title: str = "",
    loglog: bool = False,
    levels: dict[str, float] | None = None,
    per_round: dict[str, int] | None = None,
    words: tuple[str, str] = ("round", "return, mean over clients"),
    x: str = "rounds",
) -> Path:
    """Mean return against rounds, one line per run, with a band of one standard error where there are several seeds.

    `levels` are values to compare with, drawn as dotted horizontal lines. `words` label the axes; if the first is not the
    round, `per_round` says how many of that unit a round of each run has. `x` is one of `X_AXES`.
    """
    figure, axes = style.axes()
    onto(axes, rows_of, per_round or {}, words, x)
    for shade, (name, level) in zip(("0.45", "0.7"), (levels or {}).items(), strict=False):
        axes.axhline(level, color=shade, linestyle=":", linewidth=1.4, label=name)
    if loglog:
        axes.set(xscale="log", yscale="log")
    else:
        axes.margins(x=0.01)
    style.legend(axes)
    return style.save(figure, path, title)


def onto(
    axes: Any, rows_of: dict[str, list[Row]], per_round: dict[str, int], words: tuple[str, str], x: str = "rounds"
) -> None:
    """The lines and their bands."""
    banded, (label, value) = False, X_AXES[x]
    for index, (name, rows) in enumerate(rows_of.items()):
        rounds, mean = log.columns(rows, "return")
        places = per_round.get(name, 1) * np.array([value(row) for row in rows if "return" in row])
        axes.plot(places, mean, label=name or None, linewidth=1.6, **style.look(index))
        at, error = log.columns(rows, "return_se")
        if len(at) == len(rounds):
            colour = style.look(index)["color"]
            axes.fill_between(places, mean - error, mean + error, color=colour, alpha=0.18, linewidth=0)
            banded = True
    axes.set(xlabel=words[0] if x == "rounds" else label, ylabel=words[1] + (" (band: ± 1 s.e.)" if banded else ""))
