"""Figure 6e of Xu et al. 2024: talk between neighbours on Merge, with trust regions (TRPO) as learner."""

from pathlib import Path

from fedrl.local.trpo import trpo
from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.recipes.xu2024 import _merge as merge
from fedrl.recipes.xu2024._merge import PAPER_SIZE as PAPER_SIZE
from fedrl.recipes.xu2024._merge import Config as Config

PAPER = "Xu et al. 2024, Fig. 6e"
SHOWS = "does talk between neighbours help and calm TRPO on Merge (real SUMO)?"
MINUTES = 6.0
SEEDS = 2
PAPER_SEEDS = 5


def build(config: Config) -> dict[str, Arm]:
    return merge.build(config, trpo)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return merge.claims(config, arms)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [merge.draw(config, arms, folder / "speed.png", "Consensus on Merge with TRPO (Fig. 6e)")]
