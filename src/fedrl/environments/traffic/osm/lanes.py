"""The lanes of a SUMO network as a graph: which leads onto which, how far it is, and where vehicles have room."""

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

LONG = 30.0  # m: routes start and end on edges so long that no vehicle crosses one within a step
SPACE = 15.0  # m between two places where vehicles begin


class Lane(NamedTuple):
    edge: str
    number: int  # from the kerb
    length: float  # m
    limit: float  # m/s


class Lanes(NamedTuple):
    """Only lanes and edges that are open to cars. Names that begin with ":" lie inside junctions."""

    lanes: dict[str, Lane]
    edges: dict[str, tuple[str, ...]]  # those outside junctions: their lanes
    onto: Mapping[str, tuple[str, ...]]  # lane -> the lanes that follow, those inside junctions too
    ways: Mapping[str, tuple[str, ...]]  # lane -> the lanes beyond the junction


def read(file: Path) -> Lanes:
    root = ElementTree.parse(file).getroot()
    lanes, edges = {}, {}
    for edge in root.iter("edge"):
        own = [lane for lane in edge.iter("lane") if _for_cars(lane)]
        for lane in own:
            length, limit = (float(lane.attrib[name]) for name in ("length", "speed"))
            lanes[lane.attrib["id"]] = Lane(edge.attrib["id"], int(lane.attrib["index"]), length, limit)
        if own and not edge.attrib["id"].startswith(":"):
            edges[edge.attrib["id"]] = tuple(lane.attrib["id"] for lane in own)
    onto, ways = defaultdict(list), defaultdict(list)
    for link in root.iter("connection"):
        here, there = (f"{link.attrib[end]}_{link.attrib[f'{end}Lane']}" for end in ("from", "to"))
        if here in lanes and there in lanes and _for_cars(link):
            onto[here].append(link.get("via", there))
            if not here.startswith(":"):
                ways[here].append(there)
    return Lanes(lanes, edges, {k: tuple(v) for k, v in onto.items()}, {k: tuple(v) for k, v in ways.items()})


def _for_cars(element: ElementTree.Element) -> bool:
    allow, disallow = element.get("allow"), element.get("disallow", "").split()
    if allow is not None:
        return bool({"passenger", "all"} & set(allow.split()))
    return not {"passenger", "all"} & set(disallow)


def connected(graph: Lanes) -> set[str]:
    """The largest set of edges that can all reach one another; a single edge only if it leads onto itself."""
    after: dict[str, set[str]] = {edge: set() for edge in graph.edges}
    before: dict[str, set[str]] = {edge: set() for edge in graph.edges}
    for lane, following in graph.ways.items():
        for other in following:
            after[graph.lanes[lane].edge].add(graph.lanes[other].edge)
            before[graph.lanes[other].edge].add(graph.lanes[lane].edge)
    remaining, best = dict.fromkeys(graph.edges), set[str]()
    while remaining:
        start = next(iter(remaining))
        component = _reachable(start, after) & _reachable(start, before)
        best = max(best, component, key=len)
        for edge in component | {start}:
            del remaining[edge]
    return best


def _reachable(start: str, after: dict[str, set[str]]) -> set[str]:
    """The edges that can be reached from `start` in at least one step."""
    reachable, queue = set[str](), [start]
    while queue:
        for edge in after[queue.pop()] - reachable:
            reachable.add(edge)
            queue.append(edge)
    return reachable


def distances(graph: Lanes, lane: str, sight: float) -> dict[str, float]:
    """From the start of `lane` to the start of every lane that begins within `sight` of its end; its own is 0."""
    most = graph.lanes[lane].length + sight
    distance_to: dict[str, float] = {}
    queue = [(0.0, lane)]
    while queue:
        distance, current = heappop(queue)
        if current not in distance_to and distance <= most:
            distance_to[current] = distance
            for after in graph.onto.get(current, ()):
                heappush(queue, (distance + graph.lanes[current].length, after))
    return distance_to


def long_edges(graph: Lanes) -> list[str]:
    return [edge for edge, own in graph.edges.items() if graph.lanes[own[0]].length >= LONG]


def places(graph: Lanes) -> list[tuple[str, float]]:
    """Lanes and positions where vehicles can begin without being in each other's way."""
    rooms = []
    for edge in long_edges(graph):
        for lane in graph.edges[edge]:
            count = int((graph.lanes[lane].length - SPACE) // SPACE) + 1
            rooms += [(lane, SPACE * (number + 0.5)) for number in range(count)]
    return rooms
