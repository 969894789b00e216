"""Which clients train in a round: everyone, a random subset, or those whose own reports recommend them."""

from fedrl.selection.by_loss import gradient_norm, power_of_choice
from fedrl.selection.candidates import uniform_of
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.selection.participation import cohort, everyone, uniform, weighted
from fedrl.selection.selection import BuildSelection, Selection

__all__ = [
    "BuildSelection",
    "Selection",
    "cohort",
    "everyone",
    "fedpohcs",
    "gradient_norm",
    "power_of_choice",
    "uniform",
    "uniform_of",
    "weighted",
]


def __dir__() -> list[str]:
    return __all__
