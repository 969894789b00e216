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
    """Only what is open to cars. Names that begin with ":" lie inside junctions."""

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
    allowed, refused = element.get("allow"), element.get("disallow", "").split()
    if allowed is not None:
        return bool({"passenger", "all"} & set(allowed.split()))
    return not {"passenger", "all"} & set(refused)


def connected(graph: Lanes) -> set[str]:
    """The most edges from each of which every other can be reached; one alone only if it leads onto itself."""
    after: dict[str, set[str]] = {edge: set() for edge in graph.edges}
    before: dict[str, set[str]] = {edge: set() for edge in graph.edges}
    for lane, following in graph.ways.items():
        for other in following:
            after[graph.lanes[lane].edge].add(graph.lanes[other].edge)
            before[graph.lanes[other].edge].add(graph.lanes[lane].edge)
    left, best = dict.fromkeys(graph.edges), set[str]()
    while left:
        start = next(iter(left))
        whole = _reached(start, after) & _reached(start, before)
        best = max(best, whole, key=len)
        for edge in whole | {start}:
            del left[edge]
    return best


def _reached(start: str, after: dict[str, set[str]]) -> set[str]:
    """What can be reached by going at least one edge further."""
    reached, now = set[str](), [start]
    while now:
        for edge in after[now.pop()] - reached:
            reached.add(edge)
            now.append(edge)
    return reached


def distances(graph: Lanes, lane: str, sight: float) -> dict[str, float]:
    """From the start of `lane` to the start of every lane that begins within `sight` of its end; its own is 0."""
    most = graph.lanes[lane].length + sight
    reached: dict[str, float] = {}
    queue = [(0.0, lane)]
    while queue:
        distance, here = heappop(queue)
        if here not in reached and distance <= most:
            reached[here] = distance
            for after in graph.onto.get(here, ()):
                heappush(queue, (distance + graph.lanes[here].length, after))
    return reached


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
