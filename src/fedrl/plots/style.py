"""One style for all figures: quiet axes, colours that differ for colour-blind readers too, light or dark."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C564B")
DASHES = ("-", "--", ":", "-.")
BLACK = "#000000"  # the one colour that a dark background needs otherwise
PAPER, INK = "#0d1117", "#e6edf3"  # of dark figures
DARK: dict[Any, Any] = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"), PAPER),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "grid.color": "#8b949e",
}


@contextmanager
def dark() -> Iterator[None]:
    """Figures drawn here have a dark background, and "-dark" in their names."""
    with matplotlib.rc_context(DARK):
        yield


def is_dark() -> bool:
    return bool(matplotlib.rcParams["figure.facecolor"] == PAPER)


def look(index: int) -> dict[str, Any]:
    """Colour and dashes of the line number `index`."""
    colour = COLOURS[index % len(COLOURS)]
    return {
        "color": INK if colour == BLACK and is_dark() else colour,
        "linestyle": DASHES[index // len(COLOURS) % len(DASHES)],
    }


def subplots(rows: int = 1, columns: int = 1, *, figsize: tuple[float, float], **grid: Any) -> tuple[Figure, Any]:
    """A figure pyplot does not know: nothing has to be closed, and the user's own back end stays as it is."""
    figure = Figure(figsize=figsize, layout="constrained")
    return figure, figure.subplots(rows, columns, **grid)


def axes(width: float = 7.0, height: float = 4.3) -> tuple[Any, Any]:
    figure, (only,) = panels([height], width)
    return figure, only


def panels(heights: list[float], width: float = 7.0) -> tuple[Any, list[Any]]:
    """Axes one above the other, of these heights in inches."""
    figure, grid = subplots(len(heights), figsize=(width, sum(heights)), height_ratios=heights, squeeze=False)
    for axes in grid[:, 0]:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, list(grid[:, 0])


def legend(axes: Any) -> None:
    """Names of the lines, where they have any, beside the axes: never on a curve."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def legend_below(figure: Any, *axes: Any, columns: int = 3) -> None:
    """Names of the lines of these panels below the whole figure, each once."""
    lines: dict[str, Any] = {}
    for panel in axes:
        lines |= {
            name: line for line, name in zip(*panel.get_legend_handles_labels(), strict=True) if name not in lines
        }
    if lines:
        figure.legend(
            lines.values(),
            lines,
            loc="outside lower center",
            ncols=min(columns, len(lines)),
            fontsize="small",
            frameon=False,
        )


def save(figure: Any, path: Path, title: str) -> Path:
    """Write the figure to `path`; beside a PNG, which is what it returns, also as SVG."""
    if title:
        wrapped = [line for part in title.splitlines() for line in textwrap.wrap(part, 80)]
        figure.suptitle("\n".join(wrapped), fontsize="medium", x=0.01, ha="left")
    if is_dark():
        path = path.with_stem(f"{path.stem}-dark")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    if path.suffix == ".png":
        figure.savefig(path.with_suffix(".svg"))
    return path
