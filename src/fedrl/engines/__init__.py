"""Where rounds run: one compiled program, one client after the other, worker processes, a Ray cluster. Same numbers."""

from fedrl.engines.engine import Engine
from fedrl.engines.fused import fused
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.engines.ray_cluster import ray

__all__ = ["Engine", "fused", "one_at_a_time", "processes", "ray"]


def __dir__() -> list[str]:
    return __all__
