"""Figures 1a and 7a to 7c of Labbi et al. 2025: linear speed-up on two tasks, homogeneous and mildly heterogeneous."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedrl.experiments.recipe import Recipe
from fedrl.recipes import facts
from fedrl.recipes.labbi2025 import _figures, _speed_up
from fedrl.recipes.labbi2025._family import GRID_WORLD, SYNTHETIC, Task
from fedrl.recipes.labbi2025._speed_up import PAPER_SETTINGS, Settings


@dataclass(frozen=True)
class Homogeneous(Settings):
    epsilon: float = 0.0  # share of the individual kernels: none


def _row(name: str, task: Task, config: type[Settings], paper_settings: Mapping[str, Any]) -> Recipe[Settings]:
    return Recipe(
        **facts(name),
        seeds=4,
        config=config,
        build=lambda config: _speed_up.build(config, task),
        claims=lambda config, outcomes: _speed_up.claims(config, outcomes, task),
        draw=lambda config, outcomes, folder: _figures.speed_up(config, outcomes, folder, task),
        paper_settings=paper_settings,
        paper_seeds=4,
        claim_texts=(
            "a larger federation has learnt a larger share of what can be learnt, early on and at the end",
            "the rounds to a given level shrink like 1/M, where M is the number of clients",
            "this is not the longer step alone (our control: --set control=true)",
        ),
    )


FIG1A = _row("labbi2025/fig1a", SYNTHETIC, Settings, PAPER_SETTINGS | {"control": True})
FIG7A = _row("labbi2025/fig7a", GRID_WORLD, Homogeneous, PAPER_SETTINGS)
FIG7B = _row("labbi2025/fig7b", SYNTHETIC, Homogeneous, PAPER_SETTINGS)
FIG7C = _row("labbi2025/fig7c", GRID_WORLD, Settings, PAPER_SETTINGS)
