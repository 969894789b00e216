"""The lanes of a SUMO network as a graph: which leads onto which, how far it is, and where vehicles have room."""

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

LONG = 30.0  # m: vehicles begin and end their ways on edges so long that nobody crosses one within a step
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
        found = [lane for lane in edge.iter("lane") if _for_cars(lane)]
        for lane in found:
            length, limit = (float(lane.attrib[name]) for name in ("length", "speed"))
            lanes[lane.attrib["id"]] = Lane(edge.attrib["id"], int(lane.attrib["index"]), length, limit)
        if found and not edge.attrib["id"].startswith(":"):
            edges[edge.attrib["id"]] = tuple(lane.attrib["id"] for lane in found)
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


def connected(found: Lanes) -> set[str]:
    """The most edges from each of which every other can be reached; one alone only if it leads onto itself."""
    after: dict[str, set[str]] = {edge: set() for edge in found.edges}
    before: dict[str, set[str]] = {edge: set() for edge in found.edges}
    for lane, following in found.ways.items():
        for other in following:
            after[found.lanes[lane].edge].add(found.lanes[other].edge)
            before[found.lanes[other].edge].add(found.lanes[lane].edge)
    left, best = dict.fromkeys(found.edges), set[str]()
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


def distances(found: Lanes, lane: str, sight: float) -> dict[str, float]:
    """From the start of `lane` to the start of every lane that begins within `sight` of its end; its own is 0."""
    most = found.lanes[lane].length + sight
    reached: dict[str, float] = {}
    queue = [(0.0, lane)]
    while queue:
        distance, here = heappop(queue)
        if here not in reached and distance <= most:
            reached[here] = distance
            for after in found.onto.get(here, ()):
                heappush(queue, (distance + found.lanes[here].length, after))
    return reached


def long_edges(found: Lanes) -> list[str]:
    return [edge for edge, own in found.edges.items() if found.lanes[own[0]].length >= LONG]


def places(found: Lanes) -> list[tuple[str, float]]:
    """Lanes and positions where vehicles can begin without being in each other's way."""
    rooms = []
    for edge in long_edges(found):
        for lane in found.edges[edge]:
            count = int((found.lanes[lane].length - SPACE) // SPACE) + 1
            rooms += [(lane, SPACE * (number + 0.5)) for number in range(count)]
    return rooms
