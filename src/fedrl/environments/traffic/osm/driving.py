"""Routes that keep all vehicles on the road: new destinations on the last edge; the learner follows its lane."""

import libsumo
import numpy as np

from fedrl.environments.traffic.osm.lanes import Lanes, long_edges

AHEAD = 100.0  # m: the learner's route extends at least this far beyond its edge


class Destinations:
    """Destinations of the vehicles that SUMO drives; each has its own random stream."""

    def __init__(self, graph: Lanes, random: dict[str, np.random.Generator]) -> None:
        self._edges, self._random = long_edges(graph), random
        self._goal = dict.fromkeys(random, "")

    def renew(self, vehicle: str, edge: str) -> None:
        """Draw another destination if the vehicle is on the last edge of its route, or has no route yet."""
        if self._goal[vehicle] not in ("", edge):
            return
        goal = edge
        while goal == edge:
            goal = self._edges[int(self._random[vehicle].integers(len(self._edges)))]
        libsumo.vehicle.changeTarget(vehicle, goal)
        self._goal[vehicle] = goal


class Way:
    """The learner's route, drawn again whenever it enters another lane, as it may change lanes at will."""

    def __init__(self, graph: Lanes, vehicle: str, random: np.random.Generator) -> None:
        self._graph, self._vehicle, self._random = graph, vehicle, random
        self._drawn_at = "", -1  # the lane at the last draw, and the index of its edge in the route

    def renew(self, lane: str) -> None:
        v = self._vehicle
        if not lane.startswith(":") and (lane, libsumo.vehicle.getRouteIndex(v)) != self._drawn_at:
            libsumo.vehicle.setRoute(v, self._draw_route(lane))
            self._drawn_at = lane, libsumo.vehicle.getRouteIndex(v)

    def _draw_route(self, lane: str) -> list[str]:
        graph, distance = self._graph, 0.0
        edges = [graph.lanes[lane].edge]
        while distance < AHEAD:
            ways = graph.ways.get(lane) or [w for other in graph.edges[edges[-1]] for w in graph.ways.get(other, ())]
            lane = ways[int(self._random.integers(len(ways)))]
            edges.append(graph.lanes[lane].edge)
            distance += graph.lanes[lane].length
        return edges
