"""Figure 6d of Xu et al. 2024: talk between neighbours on Merge, with PPO as learner."""

from functools import partial
from pathlib import Path

from fedrl.local.ppo import ppo
from fedrl.local.steps import constant
from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.recipes.xu2024 import _merge as merge
from fedrl.recipes.xu2024._merge import PAPER_SIZE as PAPER_SIZE
from fedrl.recipes.xu2024._merge import Config as Config

PAPER = "Xu et al. 2024, Fig. 6d"
SHOWS = "does talk between neighbours help and calm PPO on Merge (real SUMO)?"
MINUTES = 6.0
SEEDS = 2
PAPER_SEEDS = 5


def build(config: Config) -> dict[str, Arm]:
    return merge.build(config, partial(ppo, epochs=4, minibatch=config.minibatch, rate=constant(config.eta)))


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return merge.claims(config, arms)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [merge.draw(config, arms, folder / "speed.png", "Consensus on Merge with PPO (Fig. 6d)")]
