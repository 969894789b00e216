"""Figure 1 of Wang et al. 2024, right: FedSVRPG-M and FedHAPG-M on HalfCheetah, beta 0.2, 0.5, 0.8, and PAvg."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.engines.processes import processes
from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.recipes.wang2024 import _betas
from fedrl.recipes.wang2024._deep import CHEETAH, HAPG, SVRPG

PAPER = "Wang et al. 2024, Fig. 1 (HalfCheetah)"
SHOWS = "the same on a simulator; the default is a taste, --paper takes a day"
MINUTES = 1.0
SEEDS = 2
PAPER_SEEDS = 4
PAPER_SIZE = {"betas": (0.2, 0.5, 0.8), "clients": 5, "rounds": 150, "local_steps": 10, "batch": 20, "horizon": 500}
BEST = {SVRPG: 0.5, HAPG: 0.5}


@dataclass(frozen=True)
class Config(_betas.Settings):
    betas: tuple[float, ...] = (0.5,)
    clients: int = 2
    rounds: int = 10
    eta: float = 1e-6  # with 1e-5 FedHAPG-M diverges and the run stops there
    local_steps: int = 5
    batch: int = 4
    episodes: int = 4
    every: int = 2
    workers: int = 0  # processes that simulate; 0: one a core


def build(config: Config) -> dict[str, Arm]:
    return _betas.build(config, CHEETAH, processes(config.workers or None))


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return _betas.claims(config, arms, BEST)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return _betas.draw(config, arms, folder, CHEETAH)
