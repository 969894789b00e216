"""Routes that keep all vehicles on the road: new destinations on the last edge; the learner follows its lane."""

import libsumo
import numpy as np

from fedrl.environments.traffic.osm.lanes import Lanes, long_edges

AHEAD = 100.0  # m: the least that the learner's way goes on beyond the edge it is on


class Destinations:
    """Of vehicles that SUMO drives. Each has its own stream of random destinations."""

    def __init__(self, graph: Lanes, random: dict[str, np.random.Generator]) -> None:
        self._edges, self._random = long_edges(graph), random
        self._goal = dict.fromkeys(random, "")

    def renew(self, vehicle: str, edge: str) -> None:
        """Draw another if it is on the edge where its way ends, or has none yet."""
        if self._goal[vehicle] not in ("", edge):
            return
        goal = edge
        while goal == edge:
            goal = self._edges[int(self._random[vehicle].integers(len(self._edges)))]
        libsumo.vehicle.changeTarget(vehicle, goal)
        self._goal[vehicle] = goal


class Way:
    """Of the learner, which changes lanes as it likes: drawn anew wherever it comes onto another lane."""

    def __init__(self, graph: Lanes, vehicle: str, random: np.random.Generator) -> None:
        self._graph, self._vehicle, self._random = graph, vehicle, random
        self._drawn_at = "", -1  # the lane, and which edge of the way it was on

    def renew(self, lane: str) -> None:
        v = self._vehicle
        if not lane.startswith(":") and (lane, libsumo.vehicle.getRouteIndex(v)) != self._drawn_at:
            libsumo.vehicle.setRoute(v, self._draw_route(lane))
            self._drawn_at = lane, libsumo.vehicle.getRouteIndex(v)

    def _draw_route(self, lane: str) -> list[str]:
        graph, further = self._graph, 0.0
        edges = [graph.lanes[lane].edge]
        while further < AHEAD:
            ways = graph.ways.get(lane) or [w for other in graph.edges[edges[-1]] for w in graph.ways.get(other, ())]
            lane = ways[int(self._random.integers(len(ways)))]
            edges.append(graph.lanes[lane].edge)
            further += graph.lanes[lane].length
        return edges
