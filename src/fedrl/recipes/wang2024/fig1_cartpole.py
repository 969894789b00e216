"""Figure 1 of Wang et al. 2024, left: FedSVRPG-M and FedHAPG-M on CartPole, five clients, beta 0.2, 0.5, 0.8, and PAvg."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.engines.fused import fused
from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.recipes.wang2024 import _betas
from fedrl.recipes.wang2024._deep import CART_POLE, HAPG, SVRPG

PAPER = "Wang et al. 2024, Fig. 1 (CartPole)"
SHOWS = "is there a beta below 1 with which momentum learns better than PAvg? None was found"
MINUTES = 2.0
SEEDS = 8
PAPER_SEEDS = 16
PAPER_SIZE = {"rounds": 150}  # as in the published logs
BEST = {SVRPG: 0.2, HAPG: 0.8}


@dataclass(frozen=True)
class Config(_betas.Settings):
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


def build(config: Config) -> dict[str, Arm]:
    return _betas.build(config, CART_POLE, fused(config.over))


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return _betas.claims(config, arms, BEST)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return _betas.draw(config, arms, folder, CART_POLE)
