"""Figures 1a and 7a to 7c of Labbi et al. 2025: linear speed-up on two tasks, homogeneous and mildly heterogeneous."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedrl.experiments.recipe import Recipe
from fedrl.recipes.labbi2025 import _figures, _speed_up
from fedrl.recipes.labbi2025._family import GRID_WORLD, SYNTHETIC, Task
from fedrl.recipes.labbi2025._speed_up import PAPER_SETTINGS, Settings


@dataclass(frozen=True)
class Homogeneous(Settings):
    epsilon: float = 0.0


def _row(figure: str, task: Task, config: type[Settings], paper_settings: Mapping[str, Any]) -> Recipe[Settings]:
    clients = "homogeneous" if config is Homogeneous else "mildly heterogeneous"
    return Recipe(
        paper=f"Labbi et al. 2025, {figure}",
        shows=f"linear speed-up of S-, RS- and b-RS-FedPG on {task.name}, {clients}",
        minutes=1.0,
        seeds=4,
        config=config,
        build=lambda config: _speed_up.build(config, task),
        claims=lambda config, outcomes: _speed_up.claims(config, outcomes, task),
        draw=lambda config, outcomes, folder: _figures.speed_up(config, outcomes, folder, task),
        paper_settings=paper_settings,
        paper_seeds=4,
    )


FIG1A = _row("Fig. 1a", SYNTHETIC, Settings, PAPER_SETTINGS | {"control": True})
FIG7A = _row("Fig. 7a", GRID_WORLD, Homogeneous, PAPER_SETTINGS)
FIG7B = _row("Fig. 7b", SYNTHETIC, Homogeneous, PAPER_SETTINGS)
FIG7C = _row("Fig. 7c", GRID_WORLD, Settings, PAPER_SETTINGS)
