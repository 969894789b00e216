"""Learning curves from logs."""

from pathlib import Path

from fedrl.plots import style
from fedrl.records import log
from fedrl.records.rows import Row


def draw(
    rows_of: dict[str, list[Row]],
    path: Path,
    *,
    title: str = "",
    loglog: bool = False,
    levels: dict[str, float] | None = None,
) -> Path:
    """Mean return against rounds, one line a run, with a band of one standard error where there are several seeds.

    `levels` are values to compare with, drawn as dotted horizontal lines.
    """
    figure, axes = style.axes()
    banded = False
    for index, (name, rows) in enumerate(rows_of.items()):
        rounds, mean = log.columns(rows, "return")
        axes.plot(rounds, mean, label=name or None, linewidth=1.6, **style.look(index))
        at, error = log.columns(rows, "return_se")
        if len(at) == len(rounds):
            colour = style.look(index)["color"]
            axes.fill_between(rounds, mean - error, mean + error, color=colour, alpha=0.18, linewidth=0)
            banded = True
    for shade, (name, level) in zip(("0.45", "0.7"), (levels or {}).items(), strict=False):
        axes.axhline(level, color=shade, linestyle=":", linewidth=1.4, label=name)
    axes.set(xlabel="round", ylabel="return, mean over clients" + (" (band: ± 1 s.e.)" if banded else ""))
    if loglog:
        axes.set(xscale="log", yscale="log")
    else:
        axes.margins(x=0.01)
    style.legend(axes)
    return style.save(figure, path, title)
