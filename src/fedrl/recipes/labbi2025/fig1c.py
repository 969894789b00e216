"""Labbi et al. 2025, Fig. 1c: the FedPG variants against Fed-Q-learning on the highly heterogeneous GridWorld."""

from pathlib import Path

from fedrl.environments import grid_world, seven_state
from fedrl.recipes.labbi2025 import _gate
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "Labbi et al. 2025, Fig. 1c"
SHOWS = "stochastic policies beat Fed-Q-learning where clients need opposite actions (GridWorld)"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _gate.PAPER_SIZE
Config = _gate.Settings
INSTANCES = _gate.Instances("GridWorld", grid_world.highly_heterogeneous, seven_state.grid_world, grid_world.GAMMA)


def build(config: Config) -> dict[str, Arm]:
    return _gate.build(config, INSTANCES)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return _gate.claims(config, arms, INSTANCES)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return _gate.draw(config, arms, folder, INSTANCES)
