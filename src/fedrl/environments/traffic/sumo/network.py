"""SUMO networks: built once by `netconvert`, kept in the user's cache folder, and read back as lanes."""

import os
import subprocess
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree

import libsumo
import numpy as np
import sumolib

from fedrl.cache_folder import cache_folder
from fedrl.environments.traffic.sumo.roads import SPEED_LIMIT, Road


class Network(NamedTuple):
    """A road as SUMO has it. `_0` after an edge's name is its only lane; lanes that begin with ":" lie inside a junction."""

    file: Path
    lengths: dict[str, float]  # of every lane, in m
    shapes: dict[str, np.ndarray]  # of every lane: its middle line, [points, 2]
    inside: dict[tuple[str, str], str]  # (edge, next edge) -> the lane that leads across the junction between them


def build(road: Road) -> Network:
    """The network of a road. Versions of SUMO may build it slightly differently, so each has its own file."""
    texts = {kind: _plain(root) for kind, root in _describe(road).items()}
    return read(cached("net.xml", "".join(texts.values()), lambda folder: _convert(texts, folder)))


def read(file: Path) -> Network:
    root = ElementTree.parse(file).getroot()
    lanes = list(root.iter("lane"))
    return Network(
        file,
        lengths={lane.attrib["id"]: float(lane.attrib["length"]) for lane in lanes},
        shapes={
            lane.attrib["id"]: np.array([point.split(",")[:2] for point in lane.attrib["shape"].split()], float)
            for lane in lanes
        },
        inside={
            (link.attrib["from"], link.attrib["to"]): link.attrib["via"]
            for link in root.iter("connection")
            if "via" in link.attrib
        },
    )


def lanes_along(network: Network, edges: Sequence[str]) -> list[str]:
    """The lanes a vehicle on this route drives over, those inside junctions too."""
    lanes = [f"{edges[0]}_0"]
    for edge, after in pairwise(edges):
        lanes += [network.inside[edge, after], f"{after}_0"]
    return lanes


def write_routes(text: str) -> Path:
    """A routes file with this text."""

    def write(folder: Path) -> Path:
        (folder / "routes").write_text(text)
        return folder / "routes"

    return cached("rou.xml", text, write)


def _describe(road: Road) -> dict[str, ElementTree.Element]:
    nodes, edges, connections = (ElementTree.Element(name) for name in ("nodes", "edges", "connections"))
    for node in road.nodes:
        options = {"type": node.kind, "radius": node.radius}
        _add(nodes, "node", id=node.id, x=node.x, y=node.y, **options)
    for edge in road.edges:
        shape = " ".join(f"{x:.6f},{y:.6f}" for x, y in edge.shape) or None
        ends = {"from": edge.start, "to": edge.end, "priority": edge.priority, "shape": shape}
        _add(edges, "edge", id=edge.id, numLanes=1, speed=SPEED_LIMIT, length=edge.length, **ends)
    for edge_id, after in road.connections:
        _add(connections, "connection", **{"from": edge_id, "to": after, "fromLane": 0, "toLane": 0})
    return {"node": nodes, "edge": edges, "connection": connections}


def _add(parent: ElementTree.Element, name: str, **attributes: object) -> None:
    texts = {key: str(value) for key, value in attributes.items() if value is not None}
    ElementTree.SubElement(parent, name, texts)


def _plain(root: ElementTree.Element) -> str:
    return ElementTree.tostring(root, encoding="unicode")


def _convert(texts: dict[str, str], folder: Path) -> Path:
    options = ["--no-turnarounds", "true", "--output-file", "net"]
    for kind, text in texts.items():
        (folder / kind).write_text(text)
        options += [f"--{kind}-files", kind]
    netconvert(options, folder)
    return folder / "net"


def netconvert(options: Sequence[str], folder: Path) -> None:
    """Run it in `folder`."""
    try:
        subprocess.run(
            [sumolib.checkBinary("netconvert"), *options], cwd=folder, check=True, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise ImportError(
            "netconvert, which builds SUMO's networks, was not found: pip install 'fedrl[traffic]'"
        ) from error
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"netconvert refused the road: {error.stderr.strip()}") from error


def cached(suffix: str, text: str, make: Callable[[Path], Path]) -> Path:
    """The file for `text`. If it does not exist, `make(folder)` writes it; atomically, so that processes may race."""
    name = sha256(f"{libsumo.__version__} {text}".encode()).hexdigest()[:20]
    folder = cache_folder("traffic")
    file = folder / f"{name}.{suffix}"
    if file.exists():
        return file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as scratch:
            os.replace(make(Path(scratch)), file)
    except OSError as error:
        raise OSError(f"cannot write SUMO's files to {folder}: {error}; point XDG_CACHE_HOME elsewhere") from error
    return file
