"""Figures 1b and 1c of Labbi et al. 2025: the FedPG variants against Fed-Q-learning on two highly heterogeneous tasks."""

from fedrl.environments.tabular import grid_world, seven_state, synthetic
from fedrl.experiments.recipe import Recipe
from fedrl.recipes.labbi2025 import _gate
from fedrl.recipes.labbi2025._gate import Instances, Settings


def _row(figure: str, instances: Instances) -> Recipe[Settings]:
    return Recipe(
        paper=f"Labbi et al. 2025, {figure}",
        shows=f"stochastic policies beat Fed-Q-learning where clients need opposite actions ({instances.name})",
        minutes=1.0,
        seeds=4,
        config=Settings,
        build=lambda config: _gate.build(config, instances),
        claims=lambda config, outcomes: _gate.claims(config, outcomes, instances),
        draw=lambda config, outcomes, folder: _gate.draw(config, outcomes, folder, instances),
        paper_settings=_gate.PAPER_SETTINGS,
        paper_seeds=4,
    )


FIG1B = _row(
    "Fig. 1b",
    Instances("Synthetic", synthetic.highly_heterogeneous, seven_state.synthetic, synthetic.GAMMA),
)
FIG1C = _row(
    "Fig. 1c",
    Instances("GridWorld", grid_world.highly_heterogeneous, seven_state.grid_world, grid_world.GAMMA),
)
