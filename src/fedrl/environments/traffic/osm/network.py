"""OpenStreetMap files as SUMO networks: the roads for cars from each of which every other can be reached."""

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from fedrl.environments.traffic.osm import lanes
from fedrl.environments.traffic.sumo import network

OPTIONS = (
    *("--keep-edges.by-vclass", "passenger", "--remove-edges.isolated", "true", "--keep-edges.postload", "true"),
    *("--no-turnarounds.except-deadend", "true", "--geometry.remove", "true"),
)
EXPORT = "export an area in OSM XML at openstreetmap.org"


class Network(NamedTuple):
    """One client's roads, and the speed and acceleration of its cars."""

    path: str | Path  # of the .osm file
    target_speed: float | None = None  # m/s; None: the highest limit in the file
    max_accel: float = 3.0  # m/s²
    max_decel: float = 3.0
    lefthand: bool = False  # True: they drive on the left, as in Hong Kong
    name: str = ""


def build(path: str | Path, *, lefthand: bool = False) -> Path:
    """The SUMO network of an .osm file, built once and kept in the user's cache folder."""
    content = _read_checked(Path(path))
    options = [*OPTIONS, "--lefthand", str(lefthand).lower()]
    cache_key = f"{options} {sha256(content).hexdigest()}"
    return network.cached("net.xml", cache_key, lambda folder: _convert(Path(path), content, options, folder))


def _read_checked(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"{path} cannot be read ({error.strerror}); pass the path of an .osm file") from error
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} is not XML ({error}); {EXPORT}") from error
    if root.tag != "osm" or not any(tag.get("k") == "highway" for tag in root.iterfind("way/tag")):
        raise ValueError(
            f"{path} has no roads: expected <osm> with ways tagged highway, got <{root.tag}> without any; {EXPORT}"
        )
    return content


def _convert(path: Path, content: bytes, options: list[str], folder: Path) -> Path:
    """Convert repeatedly, each time dropping edges that cannot be reached or lead nowhere, until there are none."""
    (folder / "osm").write_bytes(content)
    keep: list[str] = []
    while True:
        try:
            network.netconvert(["--osm-files", "osm", *options, *keep, "--output-file", "net"], folder)
        except RuntimeError as error:
            raise ValueError(f"{path} cannot be made into a road network ({error}); {EXPORT}") from error
        graph = lanes.read(folder / "net")
        component = lanes.connected(graph)
        if not component:
            raise ValueError(f"{path} has no roads on which cars could drive and come back; {EXPORT}, a larger one")
        if component == set(graph.edges):
            return folder / "net"
        (folder / "keep").write_text("\n".join(f"edge:{edge}" for edge in sorted(component)))
        keep = ["--keep-edges.input-file", "keep"]
