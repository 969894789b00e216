"""Figure 6c of Xu et al. 2024: neighbours exchange their directions before each local update, on Figure Eight."""

from pathlib import Path

from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024 import _variants as variants
from fedrl.recipes.xu2024._figure_eight import PAPER_SIZE as PAPER_SIZE
from fedrl.recipes.xu2024._figure_eight import Config as Config
from fedrl.theory.utility import TABLE_IV

PAPER = "Xu et al. 2024, Fig. 6c"
SHOWS = "does talk between neighbours speed up learning, and more so with more links and interactions?"
MINUTES = 6.0
SEEDS = 2
PAPER_SEEDS = 5

ROWS = (TABLE_IV[2], TABLE_IV[5], *TABLE_IV[9:])


def build(config: Config) -> dict[str, Arm]:
    return variants.arms(config, ROWS)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    fifteen, varied, thin, dense, twice, varied_thin = (variants.name(row) for row in ROWS)
    whole = {name: curves.whole(outcome) for name, outcome in arms.items()}
    pairs = [(thin, fifteen), (varied_thin, varied), (dense, thin), (twice, thin)]
    return [curves.above(f"{a} is above {b} (mean over all tests)", whole[a], whole[b]) for a, b in pairs]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [eight.draw(config, arms, folder / "speed.png", "Consensus between neighbours (Fig. 6c)")]
