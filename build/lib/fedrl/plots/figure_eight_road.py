"""The Figure Eight on the plane: from m along its way round to where that is, as in SUMO's network but without SUMO.

Two straight roads cross near the origin and two three-quarter rings join them. SUMO puts a lane to the right of the line
that `traffic/roads.py` draws, and counts 30 m for each straight road though the crossing takes a part of it.
"""

from typing import Any

import numpy as np

from fedrl.environments.traffic.car_following import END, ENTRY, EXIT, HALF, ROUND

RADIUS, ASIDE = 30.0, 1.6  # m: of the rings, and from the drawn line to the middle of the lane


def placed(position: Any) -> np.ndarray:
    """x, y in m and the heading, in degrees from north clockwise, of points so many m along the way round: [..., 3]."""
    position = np.asarray(position, float) % ROUND
    return np.where((position < HALF)[..., None], _half(position, north=True), _half(position - HALF, north=False))


def lanes(points: int = 120) -> list[np.ndarray]:
    """The middle lines of the two halves, [points, 2]; each ends where the other begins."""
    along = np.linspace(0.0, HALF - 1e-6, points)
    return [placed(start + along)[:, :2] for start in (0.0, HALF)]


def _half(along: np.ndarray, *, north: bool) -> np.ndarray:
    """The first half goes north and turns right about (R, R); the second goes west and turns left about (-R, -R)."""
    centre = RADIUS + (ASIDE if north else -ASIDE)  # m from the beginning to where the lanes cross
    across = (EXIT - ENTRY) / 2
    straight = np.interp(along, [0.0, ENTRY, EXIT, END], [0.0, centre - across, centre + across, 2 * RADIUS])
    turned = 1.5 * np.pi * ((along - END) / (HALF - END)).clip(0.0, 1.0)
    if north:
        on_road = np.full_like(along, ASIDE), straight - RADIUS
        on_ring = RADIUS - (RADIUS - ASIDE) * np.cos(turned), RADIUS + (RADIUS - ASIDE) * np.sin(turned)
        heading = np.degrees(turned)
    else:
        on_road = RADIUS - straight, np.full_like(along, ASIDE)
        on_ring = -RADIUS - (RADIUS + ASIDE) * np.sin(turned), -RADIUS + (RADIUS + ASIDE) * np.cos(turned)
        heading = 270.0 - np.degrees(turned)
    x, y = (np.where(along < END, *both) for both in zip(on_road, on_ring, strict=True))
    return np.stack([x, y, heading], axis=-1)
