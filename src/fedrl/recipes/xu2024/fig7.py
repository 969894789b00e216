"""Figure 7 of Xu et al. 2024: normalised average speed per unit of communication overhead, by epoch, on Figure Eight."""

from pathlib import Path

import numpy as np

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _variants as variants
from fedrl.recipes.xu2024._figure_eight import PAPER_SETTINGS, Config
from fedrl.theory.utility import TABLE_IV, TABLE_IV_PRICES

ROWS = (TABLE_IV[0], TABLE_IV[1], TABLE_IV[5], TABLE_IV[8], TABLE_IV[12])  # tau = 1, 10, 1~15; FIRL_D; FIRL_C


def build(config: Config) -> dict[str, Arm]:
    return variants.arms(config, ROWS)


def efficiency(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Measured rounds after the first [n], and NAS over what had been sent by then (C_1 and W_1) [n, seeds]."""
    rounds, nas = outcome.curve()
    sent = [variants.spent(outcome, int(r))._replace(C2=0, W2=0) for r in rounds[1:]]
    cost = np.array([sum(n * price for n, price in zip(row, TABLE_IV_PRICES, strict=True)) for row in sent])
    return rounds[1:], nas[1:] / cost[:, None]


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    one, ten, varied, decayed, talking = (variants.name(row) for row in ROWS)
    found = {name: efficiency(outcome)[1] for name, outcome in arms.items()}
    starts = [(a, b) for a in (decayed, talking) for b in (one, ten, varied)]
    return [
        *(curves.above(f"{a} starts above {b}", found[a][0], found[b][0]) for a, b in starts),
        *(curves.above(f"{a} ends above {varied}", found[a][-1], found[varied][-1]) for a in (decayed, talking)),
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    figure, axes = style.axes()
    for index, (name, outcome) in enumerate(arms.items()):
        rounds, ratio = efficiency(outcome)
        curves.line(axes, index, name, curves.by_epoch(rounds, config.epochs), ratio)
    axes.set(xlabel="epoch", ylabel="NAS per unit of communication overhead", yscale="log")
    style.legend(axes)
    return [style.save(figure, folder / "efficiency.png", "Speed per message (Fig. 7): C_1 = 1, W_1 = 0.001")]


RECIPE = Recipe(
    **facts("xu2024/fig7"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=5,
    claim_texts=(
        "FIRL_D and FIRL_C start above every periodic averaging in speed per message",
        "both end above averaging with the same tau",
    ),
)
