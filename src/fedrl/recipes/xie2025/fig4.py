"""Figure 4 of Xie & Song 2025: road networks, four ways of choosing who trains. The networks are synthetic, not Hong Kong's.

`_roads.py` says what is the paper's and what is ours. A car that always accelerates is a strong rival: compare with it.
"""

from pathlib import Path

from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.plots import curves
from fedrl.recipes import facts
from fedrl.recipes.xie2025 import _claims as says
from fedrl.recipes.xie2025 import _roads as roads
from fedrl.recipes.xie2025._methods import BASELINES, FEDPOHCS, FOUR
from fedrl.recipes.xie2025._roads import PAPER_SETTINGS, Config

SHOWS = facts("xie2025/fig4")["shows"]


def build(config: Config) -> dict[str, Arm]:
    return {name: roads.arm(config, name) for name in FOUR}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """ "FedPOHCS can obtain higher rewards and converge to the highest point" (§5.3)."""
    return [
        *(_reaches_more(arms, FEDPOHCS, name) for name in BASELINES),
        *(says.ends_above(arms, FEDPOHCS, name) for name in BASELINES),
    ]


def _reaches_more(arms: dict[str, Outcome], better: str, worse: str) -> Claim:
    """The highest return measured, within a seed."""
    above, below = (arms[name].curve()[1].max(axis=0) for name in (better, worse))
    gap, error = judge.mean_se(above - below)
    text = f"{better} reaches a higher return than {worse}, by 3 SE"
    return Claim(text, judge.sign(gap, error), {"gap": gap, "se": error, "seeds": above.size})


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    rows = {name: outcome.rows for name, outcome in arms.items()}
    return [curves.draw(rows, folder / "return.png", title=SHOWS, levels=roads.references(config))]


RECIPE = Recipe(
    **facts("xie2025/fig4"),
    seeds=1,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=3,
    claim_texts=(
        "FedPOHCS reaches a higher return than FedAvg, Power-of-Choice and GradientNorm",
        "FedPOHCS ends above each of them",
    ),
)
