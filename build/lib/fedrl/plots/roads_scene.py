"""Traffic as pictures: lanes as grey ribbons, and vehicles on them as rectangles that point where they drive."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D

from fedrl.plots.clip import Scene
from fedrl.plots.style import COLOURS

HUMAN, LEARNING, OWN = 0, 1, 2  # who drives: the last is the client that is looked at
FILLS = ("#E69F00", COLOURS[0], COLOURS[1])
NAMES = ("human", "learning", "this client")
LANE, WIDTH, LENGTH = 3.2, 2.0, 5.0  # m
LARGE, MOST = 300.0, 1.5  # m from which on widths are drawn larger than they are, and how much at most
CAPTION = 0.7  # inches above the road


def scene(lanes: Iterable[np.ndarray]) -> Scene:
    """To scale, but for widths on long roads. A lane is its middle line [points, 2].

    A pose is [vehicles, 4]: x and y of the middle of the front bumper, degrees from north clockwise, and who drives; rows
    that are nan are not on the road.
    """
    lanes = list(lanes)
    low, high = _bounds(lanes)
    wider = float(np.clip((high - low).max() / LARGE, 1.0, MOST))

    def build(axes: Any) -> Any:
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axes.add_collection(PolyCollection([_ribbon(lane, wider * LANE) for lane in lanes], color="0.86"))
        vehicles = axes.add_collection(PolyCollection([], linewidths=0.8, zorder=3))
        (ring,) = axes.plot([], [], linestyle="", marker="o", markersize=22, color="0.1", fillstyle="none", zorder=4)
        squares = [Line2D([], [], linestyle="", marker="s", color=fill) for fill in FILLS]
        axes.legend(squares, NAMES, loc="best", ncols=1, frameon=False, fontsize="small", handletextpad=0.2)

        def move(pose: np.ndarray) -> None:
            here = pose[~np.isnan(pose[:, 0])]
            here = here[np.argsort(here[:, 3], kind="stable")]  # the client's own is drawn last
            vehicles.set_verts([_rectangle(row, wider * WIDTH) for row in here])
            vehicles.set_facecolor([FILLS[int(who)] for who in here[:, 3]])
            vehicles.set_edgecolor(["0.1" if int(who) == OWN else "none" for who in here[:, 3]])
            own = [_rectangle(row, WIDTH).mean(axis=0) for row in here if int(row[3]) == OWN]
            ring.set_data([x for x, _ in own], [y for _, y in own])

        return move

    return build


def size(lanes: Iterable[np.ndarray]) -> tuple[float, float]:
    """Of the picture, in inches: wide for a long road."""
    low, high = _bounds(list(lanes))
    ratio = float((high - low)[1] / (high - low)[0])
    width = 6.0 if ratio > 0.5 else 12.0
    return width, min(width * ratio, 6.0) + CAPTION


def _bounds(lanes: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    points = np.concatenate(lanes)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.02 * (high - low).max() + LANE
    return low - margin, high + margin


def _ribbon(lane: np.ndarray, width: float) -> np.ndarray:
    """Both sides of a lane, as a polygon."""
    lane = lane[np.append(True, np.abs(np.diff(lane, axis=0)).max(axis=1) > 0.0)]
    if len(lane) < 2:
        return np.zeros((0, 2))
    along = np.gradient(lane, axis=0)
    aside = width / 2 * np.stack([-along[:, 1], along[:, 0]], axis=1) / np.linalg.norm(along, axis=1)[:, None]
    return np.concatenate([lane + aside, (lane - aside)[::-1]])


def _rectangle(vehicle: np.ndarray, width: float) -> np.ndarray:
    front, heading = vehicle[:2], np.radians(vehicle[2])
    along = np.array([np.sin(heading), np.cos(heading)])
    aside = width / 2 * np.array([-along[1], along[0]])
    back = front - LENGTH * along
    return np.array([front + aside, front - aside, back - aside, back + aside])
