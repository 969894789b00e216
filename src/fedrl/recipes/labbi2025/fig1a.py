"""Labbi et al. 2025, Fig. 1a: linear speed-up on Synthetic, mildly heterogeneous (epsilon = 0.3)."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.recipes.labbi2025 import _figures, _speed_up
from fedrl.recipes.labbi2025._family import SYNTHETIC
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "Labbi et al. 2025, Fig. 1a"
SHOWS = "linear speed-up of S-, RS- and b-RS-FedPG on Synthetic, mildly heterogeneous"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _speed_up.PAPER_SIZE | {"control": True}


@dataclass(frozen=True)
class Config(_speed_up.Settings):
    epsilon: float = 0.3


def build(config: Config) -> dict[str, Arm]:
    return _speed_up.build(config, SYNTHETIC)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return _speed_up.claims(config, arms, SYNTHETIC)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return _figures.speed_up(config, arms, folder, SYNTHETIC, f"{SYNTHETIC.name}, epsilon = {config.epsilon:g}")
