"""Labbi et al. 2025, Fig. 7c: linear speed-up on GridWorld, mildly heterogeneous (epsilon = 0.3)."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.recipes.labbi2025 import _figures, _speed_up
from fedrl.recipes.labbi2025._family import GRID_WORLD
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "Labbi et al. 2025, Fig. 7c"
SHOWS = "linear speed-up of S-, RS- and b-RS-FedPG on GridWorld, mildly heterogeneous"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _speed_up.PAPER_SIZE


@dataclass(frozen=True)
class Config(_speed_up.Settings):
    epsilon: float = 0.3


def build(config: Config) -> dict[str, Arm]:
    return _speed_up.build(config, GRID_WORLD)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return _speed_up.claims(config, arms, GRID_WORLD)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return _figures.speed_up(config, arms, folder, GRID_WORLD, f"{GRID_WORLD.name}, epsilon = {config.epsilon:g}")
