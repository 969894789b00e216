"""What a figure shows, read off its artists: lines, bands, bars and dots with their error bars."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure

Points = tuple[list[float], list[float]]


@contextmanager
def saved_figures() -> Iterator[list[Figure]]:
    """The figures that are saved meanwhile, in order; they are really written."""
    found: list[Figure] = []
    write = Figure.savefig

    def savefig(self: Figure, *args: Any, **options: Any) -> None:
        if self not in found:  # a PNG has an SVG beside it
            found.append(self)
        write(self, *args, **options)

    Figure.savefig = savefig  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Figure.savefig = write  # type: ignore[method-assign]


def lines(axes: Any) -> dict[str, Points]:
    """Lines by their labels; those without one, "_child0" and so on, are left out."""
    named = {line.get_label(): line for line in axes.get_lines()}
    return {
        name: (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for name, line in named.items()
        if not name.startswith("_")
    }


def bands(axes: Any) -> list[tuple[list[float], list[float], list[float]]]:
    """x, lower and upper edge of every band, in order of drawing."""
    found = []
    for band in (it for it in axes.collections if isinstance(it, PolyCollection)):
        corners = band.get_paths()[0].vertices
        places = sorted(set(corners[:, 0]))
        ends = [[f(corners[corners[:, 0] == x, 1]) for x in places] for f in (np.min, np.max)]
        found.append((places, *ends))
    return found


def bars(axes: Any) -> list[float]:
    """How long the bars are, in order of drawing; upright ones or lying ones."""
    found = [(box, bar.orientation) for bar in axes.containers if isinstance(bar, BarContainer) for box in bar]
    return [box.get_height() if upright == "vertical" else box.get_width() for box, upright in found]


def errors(axes: Any) -> list[tuple[Points, list[float] | None]]:
    """Of every set of error bars: its points, and half the length of each bar (None where there are none)."""
    found = []
    for points, _, sticks in (it for it in axes.containers if isinstance(it, ErrorbarContainer)):
        places = np.asarray(points.get_xdata()).tolist(), np.asarray(points.get_ydata()).tolist()
        half = [float(np.abs(np.diff(s, axis=0)).max() / 2) for s in sticks[0].get_segments()] if sticks else None
        found.append((places, half))
    return found
