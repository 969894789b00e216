"""The roads of Flow's benchmarks (Vinitsky et al. 2018), as descriptions that `network.build` turns into SUMO networks."""

from math import cos, pi, sin, sqrt
from typing import NamedTuple

SPEED_LIMIT = 30.0  # m/s, on every edge


class Node(NamedTuple):
    id: str
    x: float
    y: float
    kind: str | None = None  # None: netconvert decides
    radius: float | None = None


class Edge(NamedTuple):
    """A one-way road of one lane. `length` is what SUMO counts, whatever the drawn `shape` measures."""

    id: str
    start: str
    end: str
    length: float
    priority: int | None = None
    shape: tuple[tuple[float, float], ...] = ()


class Road(NamedTuple):
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    connections: tuple[tuple[str, str], ...] = ()  # edge to edge; where a node has none, netconvert decides


EIGHT = ("bottom", "top", "upper_ring", "right", "left", "lower_ring")  # the closed way round, in driving order
CROSSING = ("bottom", "top"), ("right", "left")  # the first has the right of way


def figure_eight(radius: float = 30.0, points: int = 40) -> Road:
    """Two three-quarter rings joined by two straight roads that cross; bottom to top goes first, right to left yields."""
    half, ring = radius, 1.5 * pi * radius
    angles = [1.5 * pi * i / (points - 1) for i in range(points)]
    upper = tuple((radius * (1 - cos(t)), radius * (1 + sin(t))) for t in angles)
    lower = tuple((radius * (cos(t) - 1), radius * (sin(t) - 1)) for t in (pi / 2 + angle for angle in angles))
    return Road(
        nodes=(
            Node("center", 0.0, 0.0, "priority", radius=3.1),
            Node("right", radius, 0.0, "priority"),
            Node("top", 0.0, radius, "priority"),
            Node("left", -radius, 0.0, "priority"),
            Node("bottom", 0.0, -radius, "priority"),
        ),
        edges=(
            Edge("bottom", "bottom", "center", half, 78),
            Edge("top", "center", "top", half, 78),
            Edge("right", "right", "center", half, 46),
            Edge("left", "center", "left", half, 46),
            Edge("upper_ring", "top", "right", ring, shape=upper),
            Edge("lower_ring", "left", "bottom", ring, shape=lower),
        ),
        connections=CROSSING,
    )


HIGHWAY = ("inflow_highway", "left", "center")
RAMP = ("inflow_merge", "bottom", "center")


def merge(before: float = 500.0, after: float = 100.0, inflow: float = 100.0, ramp: float = 100.0) -> Road:
    """A highway and a ramp that joins it at 45 degrees. No priorities are set: netconvert lets the ramp go first."""
    near, far = ramp / sqrt(2), (ramp + inflow) / sqrt(2)
    return Road(
        nodes=(
            Node("inflow_highway", -inflow, 0.0),
            Node("left", 0.0, 0.0),
            Node("center", before, 0.0, radius=10.0),
            Node("right", before + after, 0.0),
            Node("inflow_merge", before - far, -far),
            Node("bottom", before - near, -near),
        ),
        edges=(
            Edge("inflow_highway", "inflow_highway", "left", inflow),
            Edge("left", "left", "center", before),
            Edge("inflow_merge", "inflow_merge", "bottom", inflow),
            Edge("bottom", "bottom", "center", ramp),
            Edge("center", "center", "right", after),
        ),
    )
