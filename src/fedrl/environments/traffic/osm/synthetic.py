"""Ten made-up towns as OpenStreetMap files, synthetic 0 to 9: they differ in size, lanes, limits and acceleration.

They stand in for the ten areas of Hong Kong of `xie2025`, whose extracts are not public, and show no real place: streets lie
on a grid whose crossings are moved at random, some broken off, some one-way, some crossings with lights.
"""

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from fedrl.environments.traffic.osm.network import Network
from fedrl.environments.traffic.sumo.network import cached

DEGREE = 111_195.0  # m on the equator, in the sea off Africa, where all of them lie
SEED = 2025


class Plan(NamedTuple):
    columns: int  # of crossings
    rows: int
    block: float  # m from crossing to crossing
    lanes: int  # of a main street, in each direction
    limit: int  # km/h on a main street
    side_limit: int  # km/h elsewhere
    max_accel: float  # m/s²
    max_decel: float


PLANS = (
    Plan(4, 4, 120.0, 2, 50, 50, 2.6, 4.5),
    Plan(6, 3, 150.0, 3, 70, 50, 3.0, 4.5),
    Plan(3, 3, 100.0, 1, 30, 30, 1.5, 3.0),
    Plan(5, 5, 110.0, 2, 60, 30, 2.0, 3.5),
    Plan(7, 2, 180.0, 3, 80, 60, 3.5, 6.0),
    Plan(4, 3, 90.0, 1, 50, 30, 2.6, 4.5),
    Plan(6, 5, 130.0, 3, 60, 50, 1.8, 3.0),
    Plan(5, 2, 140.0, 2, 70, 50, 3.0, 5.0),
    Plan(3, 5, 160.0, 2, 50, 30, 2.2, 4.0),
    Plan(8, 4, 100.0, 1, 60, 50, 4.0, 6.0),
)


def network(number: int) -> Network:
    """Synthetic `number`, 0 to 9. All cars aim for the speed limit of a main street."""
    if number not in range(len(PLANS)):
        raise ValueError(f"number must be from 0 to {len(PLANS) - 1}, got {number}")
    plan, text = PLANS[number], osm(number)

    def write(folder: Path) -> Path:
        (folder / "osm").write_text(text)
        return folder / "osm"

    return Network(
        cached("osm", text, write), plan.limit / 3.6, plan.max_accel, plan.max_decel, name=f"synthetic {number}"
    )


def osm(number: int) -> str:
    """The file's text. Streets along the edge of the town are two-way and whole, so that every part of it can be reached."""
    plan, random = PLANS[number], np.random.default_rng([SEED, number])
    root = ElementTree.Element("osm", version="0.6", generator=f"fedrl synthetic {number}")
    crossings = np.stack(np.meshgrid(np.arange(plan.columns), np.arange(plan.rows), indexing="ij"), axis=-1)
    metres = plan.block * (crossings + 1 + random.uniform(-0.2, 0.2, crossings.shape))
    lights = random.random(crossings.shape[:2]) < 0.2
    for (column, row), (x, y), has_lights in zip(
        crossings.reshape(-1, 2), metres.reshape(-1, 2), lights.ravel(), strict=True
    ):
        place = {"id": _node(column, row), "lat": f"{y / DEGREE:.7f}", "lon": f"{x / DEGREE:.7f}"}
        node = ElementTree.SubElement(root, "node", place)
        if has_lights and 0 < column < plan.columns - 1 and 0 < row < plan.rows - 1:
            _tag(node, highway="traffic_signals")
    lines = [[_node(column, row) for column in range(plan.columns)] for row in range(plan.rows)]
    lines += [[_node(column, row) for row in range(plan.rows)] for column in range(plan.columns)]
    outer = {0, plan.rows - 1, plan.rows, plan.rows + plan.columns - 1}
    main = {plan.rows // 2, plan.rows + plan.columns // 2}
    for number_of_line, line in enumerate(lines):
        for part in _break_up(line, random) if number_of_line not in outer | main else [line]:
            way = ElementTree.SubElement(root, "way", id=str(1 + sum(child.tag == "way" for child in root)))
            for node_id in part:
                ElementTree.SubElement(way, "nd", ref=node_id)
            if number_of_line in main:
                _tag(way, highway="primary", lanes=2 * plan.lanes, maxspeed=plan.limit)
            elif number_of_line in outer:
                _tag(way, highway="secondary", lanes=2 * max(1, plan.lanes - 1), maxspeed=plan.side_limit)
            elif random.random() < 0.3:
                _tag(way, highway="tertiary", lanes=plan.lanes, maxspeed=plan.side_limit, oneway="yes")
            else:
                _tag(way, highway="residential", lanes=2, maxspeed=plan.side_limit)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def _node(column: int, row: int) -> str:
    return str(100 * (int(column) + 1) + int(row) + 1)


def _tag(element: ElementTree.Element, **tags: object) -> None:
    for key, value in tags.items():
        ElementTree.SubElement(element, "tag", k=key, v=str(value))


def _break_up(line: list[str], random: np.random.Generator) -> list[list[str]]:
    """The street, in half of all cases with one block left out if it has at least three."""
    if len(line) < 4 or random.random() < 0.5:
        return [line]
    gap = int(random.integers(1, len(line) - 2))
    return [line[: gap + 1], line[gap + 1 :]]
