"""Figure 6a of Xu et al. 2024: fewer, and fewer equal, local updates between two averagings, on Figure Eight."""

from pathlib import Path

from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024 import _variants as variants
from fedrl.recipes.xu2024._figure_eight import PAPER_SIZE as PAPER_SIZE
from fedrl.recipes.xu2024._figure_eight import Config as Config
from fedrl.theory.utility import TABLE_IV

PAPER = "Xu et al. 2024, Fig. 6a"
SHOWS = "does performance fall with the number tau of local updates, and with their mean?"
MINUTES = 6.0
SEEDS = 2
PAPER_SEEDS = 5

ROWS = TABLE_IV[:6]


def build(config: Config) -> dict[str, Arm]:
    return variants.arms(config, ROWS)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """Each pair the figure orders: by tau, and at tau = 15 by the mean of tau_i."""
    one, ten, fifteen, from_10, from_5, from_1 = (variants.name(row) for row in ROWS)
    whole = {name: curves.whole(outcome) for name, outcome in arms.items()}
    pairs = [(one, ten), (ten, fifteen), (from_10, fifteen), (from_5, from_10), (from_1, from_5)]
    return [curves.above(f"{a} is above {b} (mean over all tests)", whole[a], whole[b]) for a, b in pairs]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [eight.draw(config, arms, folder / "speed.png", "Variation-aware periodic averaging (Fig. 6a)")]
