"""A driver's observation: the vehicles ahead and behind, on its own lane and on the two beside it (`xie2025` §5.1)."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from fedrl.environments.traffic.osm.lanes import Lanes, distances
from fedrl.environments.traffic.sumo.vehicles import LENGTH, TOP_SPEED

SIGHT = 100.0  # m
FREE_AHEAD, FREE_BEHIND, NO_LANE = (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)
SEEN = 18


class Place(NamedTuple):
    lane: str
    position: float  # m from the start of the lane to the front bumper
    speed: float  # m/s


class Sight:
    """Eighteen numbers in [0, 1]: for the lane on the left, its own and the one on the right, and on each for the nearest
    vehicle ahead and behind: headway / 100 m, from bumper to bumper (0: side by side); speed / 30; position / length of the
    lane it is on.

    A lane goes on beyond a junction in every lane it leads to, and comes from every lane that leads to it. If no
    vehicle is within 100 m, ahead is (1, 1, 1) and behind (1, 0, 0); a missing lane looks like a blocked one, all 0.
    """

    def __init__(self, graph: Lanes, *, lefthand: bool) -> None:
        self._lanes, self._left = graph.lanes, -1 if lefthand else 1
        self._from = cache(lambda lane: distances(graph, lane, SIGHT))
        self._named = {(lane.edge, lane.number): name for name, lane in graph.lanes.items()}

    def beside(self, lane: str, side: int) -> str | None:
        """The lane `side` to the left of it (1; 0: itself, -1: to the right), if there is one."""
        edge, number = self._lanes[lane][:2]
        return self._named.get((edge, number + side * self._left))

    def seen(self, own: Place, others: Sequence[Place]) -> np.ndarray:
        numbers: list[float] = []
        for side in (1, 0, -1):
            lane = self.beside(own.lane, side)
            if lane is None:
                numbers += NO_LANE + NO_LANE
            else:
                numbers += self._nearest(own.position, lane, others)
        return np.array(numbers, np.float32)

    def _nearest(self, x: float, lane: str, others: Sequence[Place]) -> tuple[float, ...]:
        onward = self._from(lane)
        ahead = behind = None
        to_ahead = to_behind = SIGHT + LENGTH
        for other in others:
            if other.lane == lane:
                forward, back = other.position - x, x - other.position
            else:
                forward = onward.get(other.lane, np.inf) + other.position - x
                back = self._from(other.lane).get(lane, np.inf) + x - other.position
            if 0.0 <= forward <= to_ahead:
                ahead, to_ahead = other, forward
            if 0.0 < back <= to_behind:
                behind, to_behind = other, back
        return self._describe(ahead, to_ahead, FREE_AHEAD) + self._describe(behind, to_behind, FREE_BEHIND)

    def _describe(self, other: Place | None, distance: float, default: tuple[float, ...]) -> tuple[float, ...]:
        if other is None:
            return default
        length = self._lanes[other.lane].length
        return max(0.0, distance - LENGTH) / SIGHT, min(other.speed / TOP_SPEED, 1.0), min(other.position / length, 1.0)
