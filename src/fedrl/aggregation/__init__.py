"""How the server combines uploads, and projections it may apply afterwards."""

from fedrl.aggregation.mean import mean, stack
from fedrl.aggregation.median import median
from fedrl.aggregation.projection import linf_ball

__all__ = ["linf_ball", "mean", "median", "stack"]


def __dir__() -> list[str]:
    return __all__
