"""Labbi et al. 2025, Fig. 1a: linear speed-up on Synthetic, mildly heterogeneous (epsilon = 0.3)."""

from dataclasses import dataclass
from functools import partial

from fedrl.recipes.labbi2025 import _figures, _speed_up
from fedrl.recipes.labbi2025._family import SYNTHETIC

PAPER = "Labbi et al. 2025, Fig. 1a"
SHOWS = "linear speed-up of S-, RS- and b-RS-FedPG on Synthetic, mildly heterogeneous"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _speed_up.PAPER_SIZE | {"control": True}


@dataclass(frozen=True)
class Config(_speed_up.Settings):
    epsilon: float = 0.3


build = partial(_speed_up.build, task=SYNTHETIC)
claims = partial(_speed_up.claims, task=SYNTHETIC)
draw = partial(_figures.speed_up, task=SYNTHETIC)
