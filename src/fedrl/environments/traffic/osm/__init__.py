"""Road networks from OpenStreetMap files, one per client: the HongKongOSMs of `xie2025`, on SUMO.

`OsmRoads` is a Gymnasium environment on any .osm file, and `synthetic.network(0)` to `(9)` are ten made-up towns.
`fedrl.federations.osm.federation` makes clients of either.
"""

from fedrl.environments.traffic.osm import synthetic
from fedrl.environments.traffic.osm.network import Network
from fedrl.environments.traffic.osm.roads import OsmRoads

__all__ = ["Network", "OsmRoads", "synthetic"]
