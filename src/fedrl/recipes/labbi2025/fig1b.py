"""Labbi et al. 2025, Fig. 1b: the FedPG variants against Fed-Q-learning on the highly heterogeneous Synthetic."""

from pathlib import Path

from fedrl.environments import seven_state, synthetic
from fedrl.recipes.labbi2025 import _gate
from fedrl.recipes.recipe import Arm, Claim, Outcome

PAPER = "Labbi et al. 2025, Fig. 1b"
SHOWS = "stochastic policies beat Fed-Q-learning where clients need opposite actions (Synthetic)"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _gate.PAPER_SIZE
Config = _gate.Settings
INSTANCES = _gate.Instances("Synthetic", synthetic.highly_heterogeneous, seven_state.synthetic, synthetic.GAMMA)


def build(config: Config) -> dict[str, Arm]:
    return _gate.build(config, INSTANCES)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return _gate.claims(config, arms, INSTANCES)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return _gate.draw(config, arms, folder, INSTANCES)
