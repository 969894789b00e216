"""What happens to messages on the way: delays, noise, and graphs of neighbours that exchange directions before each step."""

from fedrl.channels.delays import delayed
from fedrl.channels.gaussian import gaussian
from fedrl.channels.graphs import (
    SIXTEEN_LINKS,
    THIRTEEN_LINKS,
    Graph,
    complete,
    consensus,
    contraction,
    edges,
    mixing,
    path,
    random_graph,
    ring,
)
from fedrl.channels.plain import plain
from fedrl.channels.staleness import Discount, hinge, inverse, polynomial
from fedrl.types import Channel

__all__ = [
    "SIXTEEN_LINKS",
    "THIRTEEN_LINKS",
    "Channel",
    "Discount",
    "Graph",
    "complete",
    "consensus",
    "contraction",
    "delayed",
    "edges",
    "gaussian",
    "hinge",
    "inverse",
    "mixing",
    "path",
    "plain",
    "polynomial",
    "random_graph",
    "ring",
]


def __dir__() -> list[str]:
    return __all__
