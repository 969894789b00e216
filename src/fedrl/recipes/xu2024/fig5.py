"""Figure 5 of Xu et al. 2024: FIRL and FIRL_D at step sizes from 1e-5 to 1e-2, on Figure Eight."""

from dataclasses import dataclass
from pathlib import Path

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024._figure_eight import PAPER_SETTINGS
from fedrl.theory.utility import TABLE_IV

ROWS = {"FIRL": TABLE_IV[5], "FIRL_D": TABLE_IV[8]}  # tau = 1~15; lambda = 0.92


@dataclass(frozen=True)
class Config(eight.Config):
    etas: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5)  # step sizes; one curve each


def _name(method: str, eta: float) -> str:
    return f"{method}, eta = {eta:g}"


def build(config: Config) -> dict[str, Arm]:
    return {
        _name(method, eta): eight.arm(config, eight.variant(config, row, eta), row.tau)
        for method, row in ROWS.items()
        for eta in config.etas
    }


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    final = {name: outcome.final() for name, outcome in arms.items()}
    return [
        curves.above(
            f"{method}: eta = 0.001 ends above eta = {other:g}", final[_name(method, 1e-3)], final[_name(method, other)]
        )
        for method in ROWS
        for other in (1e-2, 1e-5)
        if {1e-3, other} <= set(config.etas)
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [
        eight.draw(
            config, {n: o for n, o in arms.items() if n.startswith(f"{method},")}, folder / f"{method}.png", method
        )
        for method in ROWS
    ]


RECIPE = Recipe(
    **facts("xu2024/fig5"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=5,
    claim_texts=("eta = 0.001 ends above 0.01 and above 0.00001, for FIRL and for FIRL_D",),
)
