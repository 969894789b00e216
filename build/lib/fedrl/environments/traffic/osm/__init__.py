"""Road networks from OpenStreetMap files, each the world of one client: paper 004's HongKongOSMs, on SUMO.

`OsmRoads` is a Gymnasium environment on any .osm file, `synthetic.network(0)` to `(9)` are ten made-up towns, and
`federation` makes clients of either.
"""

from typing import TYPE_CHECKING, Any

from fedrl.environments.traffic.osm import synthetic
from fedrl.environments.traffic.osm.network import Network
from fedrl.environments.traffic.osm.roads import OsmRoads

if TYPE_CHECKING:
    from fedrl.federations.osm import federation

__all__ = ["Network", "OsmRoads", "federation", "synthetic"]


def __getattr__(name: str) -> Any:
    """Import on first use: the processes in which SUMO runs need no JAX."""
    if name != "federation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    from fedrl.federations.osm import federation

    return federation
