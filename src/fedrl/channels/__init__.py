"""What happens to messages on the way: delays, and graphs of neighbours that exchange directions before each local step."""

from fedrl.channels.delays import delayed
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
from fedrl.types import Channel

__all__ = [
    "SIXTEEN_LINKS",
    "THIRTEEN_LINKS",
    "Channel",
    "Graph",
    "complete",
    "consensus",
    "contraction",
    "delayed",
    "edges",
    "mixing",
    "path",
    "plain",
    "random_graph",
    "ring",
]


def __dir__() -> list[str]:
    return __all__
