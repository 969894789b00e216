"""Plots of partitions: one row per arm, one bar per client (fedagent, Figures 5-16).

Arms are partitions of the same tasks by name, {"omega = 0.1": ..., "omega = 0.9": ...}. The panel on the right
shows the pool's shares, or how often each height occurs.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.llm.partitions.checks import Partition, PartitionError, labels_of
from fedrl.plots import style

Arms = dict[str, Partition]
OTHERS = "all others"
MOST_IN_A_ROW = 5  # names of categories below the figure


def categories_of_clients(arms: Arms, categories: Sequence[Any] | np.ndarray, path: Path, *, title: str = "") -> Path:
    """Category shares as stacked bars, Figures 5-8. If there are more categories than colours, the rarest are merged."""
    labels = _labels_that_reach("categories", categories, arms)
    kinds, counts = np.unique(labels, return_counts=True)
    common = kinds[np.argsort(-counts, kind="stable")]
    most = len(style.COLOURS)
    named = common if len(common) <= most else common[: most - 1]
    figure, rows = _rows(arms)
    for (clients, pool), (arm, partition) in zip(rows, arms.items(), strict=True):
        shares = np.array([[_share(labels[tasks] == kind) for kind in named] for tasks in partition])
        pool_shares = np.array([_share(labels == kind) for kind in named])
        names = [str(kind) for kind in named]
        if len(named) < len(common):
            rest = [_share(~np.isin(labels[tasks], named)) for tasks in partition]
            shares, pool_shares = np.column_stack([shares, rest]), np.append(pool_shares, 1 - pool_shares.sum())
            names.append(OTHERS)
        _stack(clients, np.arange(len(partition)), shares, names)
        _stack(pool, [0], pool_shares[None], names)
        pool.set_xticks([0], ["all tasks"])
        clients.set(ylabel="share of tasks", ylim=(0, 1))
        _heading(clients, arm, "share of one category, s.d. over clients", shares.std(axis=0).mean())
    columns = math.ceil(len(names) / math.ceil(len(names) / MOST_IN_A_ROW))
    style.legend_below(figure, rows[0][0], columns=columns)
    return style.save(figure, path, title)


def sizes_of_clients(arms: Arms, path: Path, *, title: str = "") -> Path:
    """Tasks of each client, their mean and how often each number occurs, Figures 9-12."""
    return _heights({arm: np.array([len(tasks) for tasks in partition]) for arm, partition in arms.items()},
                    "tasks", None, path, title)  # fmt: skip


def success_of_clients(arms: Arms, solved: Sequence[bool] | np.ndarray, path: Path, *, title: str = "") -> Path:
    """Share of each client's tasks that the checkpoint solves, its mean and how often each occurs, Figures 13-16."""
    labels = _labels_that_reach("solved", solved, arms).astype(bool)
    shares = {arm: np.array([_share(labels[tasks]) for tasks in partition]) for arm, partition in arms.items()}
    return _heights(shares, "share of solved tasks", (0.0, 1.0), path, title)


def _heights(
    heights_by_arm: dict[str, np.ndarray], name: str, ylim: tuple[float, float] | None, path: Path, title: str
) -> Path:
    """One bar per client, and a horizontal histogram."""
    figure, rows = _rows(heights_by_arm)
    top = max(heights.max() for heights in heights_by_arm.values())
    low, high = ylim or (0.0, 1.05 * top)
    for (clients, often), (arm, heights) in zip(rows, heights_by_arm.items(), strict=True):
        clients.bar(np.arange(len(heights)), heights, width=0.9, color=style.COLOURS[0])
        clients.axhline(heights.mean(), **style.look(1), linewidth=1.2)
        often.hist(heights, bins=np.linspace(low, high, 21), orientation="horizontal", color=style.COLOURS[0])
        often.axhline(heights.mean(), **style.look(1), linewidth=1.2)
        often.set(xlabel="clients" if often is rows[-1][1] else "")
        often.xaxis.get_major_locator().set_params(integer=True)
        clients.set(ylabel=name, ylim=(low, high))
        _heading(clients, arm, f"mean {heights.mean():.4g}, s.d. over clients", heights.std())
    return style.save(figure, path, title)


def _rows(arms: dict[str, Any]) -> tuple[Any, Any]:
    """A wide and a narrow panel for each arm."""
    figure, rows = style.subplots(len(arms), 2, figsize=(9, 0.7 + 2.2 * len(arms)), sharey="row", squeeze=False,
                                width_ratios=(6, 1))  # fmt: skip
    for axes in rows.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6, axis="y")
        axes.set_axisbelow(True)
    for clients, beside in rows:
        clients.margins(x=0.01)
        clients.xaxis.get_major_locator().set_params(integer=True)
        beside.tick_params(labelleft=False)
    rows[-1][0].set(xlabel="client")
    return figure, rows


def _share(mask: np.ndarray) -> float:
    """The share of a client's tasks in `mask`; zero for a client without tasks."""
    return np.count_nonzero(mask) / max(len(mask), 1)


def _stack(axes: Any, places: Any, shares: np.ndarray, names: list[str]) -> None:
    below = np.cumsum(shares, axis=1) - shares
    for index, name in enumerate(names):
        axes.bar(places, shares[:, index], bottom=below[:, index], width=0.9, color=style.COLOURS[index], label=name)


def _heading(axes: Any, arm: str, what: str, value: float) -> None:
    axes.set_title(f"{arm}  ({what} {value:.3g})", fontsize="small", loc="left")


def _labels_that_reach(name: str, labels: Sequence[Any] | np.ndarray, arms: Arms) -> np.ndarray:
    found = labels_of(name, labels, None)
    largest = max(int(mine.max()) for partition in arms.values() for mine in partition if len(mine))
    if largest >= len(found):
        raise PartitionError(
            f"{name} has {len(found)} labels but a client has task {largest}; pass the labels the partition was made of"
        )
    return found
