"""Labbi et al. 2025, Fig. 7a: linear speed-up on GridWorld, homogeneous (epsilon = 0.0)."""

from dataclasses import dataclass
from functools import partial

from fedrl.recipes.labbi2025 import _figures, _speed_up
from fedrl.recipes.labbi2025._family import GRID_WORLD

PAPER = "Labbi et al. 2025, Fig. 7a"
SHOWS = "linear speed-up of S-, RS- and b-RS-FedPG on GridWorld, homogeneous"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _speed_up.PAPER_SIZE


@dataclass(frozen=True)
class Config(_speed_up.Settings):
    epsilon: float = 0.0


build = partial(_speed_up.build, task=GRID_WORLD)
claims = partial(_speed_up.claims, task=GRID_WORLD)
draw = partial(_figures.speed_up, task=GRID_WORLD)
