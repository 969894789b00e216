"""Returns client by client: one dot per client, one colour per arm."""

from pathlib import Path

import numpy as np

from fedrl.plots import style

BESIDE = 0.5  # the dots of one client's arms stand this far apart in all, where clients are one apart


def draw(returns: dict[str, np.ndarray], path: Path, *, title: str = "") -> Path:
    """Mean over seeds of each arm's returns [seeds, clients], with one standard error where there are several seeds."""
    figure, axes = style.axes()
    shifts = np.linspace(-BESIDE / 2, BESIDE / 2, len(returns)) if len(returns) > 1 else [0.0]
    for index, (arm, values) in enumerate(returns.items()):
        seeds, clients = values.shape
        error = values.std(axis=0, ddof=1) / seeds**0.5 if seeds > 1 else None
        size = float(np.clip(240 / clients, 1.5, 5))
        axes.errorbar(np.arange(clients) + shifts[index], values.mean(axis=0), yerr=error, fmt="o", markersize=size,
                      linewidth=0.8, color=style.look(index)["color"], label=arm)  # fmt: skip
    several = any(len(values) > 1 for values in returns.values())
    axes.set(xlabel="client", ylabel="return" + (" (mean over seeds ± 1 s.e.)" if several else ""))
    axes.xaxis.get_major_locator().set_params(integer=True)
    style.legend_below(figure, axes)
    return style.save(figure, path, title)
