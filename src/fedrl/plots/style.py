"""One style for all figures: quiet axes, colours that differ for colour-blind readers too."""

import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C564B")
DASHES = ("-", "--", ":", "-.")
MOST_INSIDE = 5  # a longer legend goes beside the axes


def look(index: int) -> dict[str, Any]:
    """Colour and dashes of the line number `index`."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index // len(COLOURS) % len(DASHES)]}


def axes(width: float = 7.0, height: float = 4.3) -> tuple[Any, Any]:
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def legend(axes: Any) -> None:
    """Names of the lines, where they have any; many of them beside the axes rather than on the curves."""
    names = axes.get_legend_handles_labels()[1]
    if len(names) > MOST_INSIDE:
        axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif names:
        axes.legend(fontsize="small", framealpha=0.8, edgecolor="none")


def save(figure: Any, path: Path, title: str) -> Path:
    if title:
        figure.suptitle("\n".join(textwrap.wrap(title, 80)), fontsize="medium", x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
