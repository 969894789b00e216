"""Figures 1b and 1c of Labbi et al. 2025: the FedPG variants against Fed-Q-learning on two highly heterogeneous tasks."""

from fedrl.environments.tabular import grid_world, seven_state, synthetic
from fedrl.experiments.recipe import Recipe
from fedrl.recipes import facts
from fedrl.recipes.labbi2025 import _gate
from fedrl.recipes.labbi2025._gate import Instances, Settings


def _row(name: str, instances: Instances) -> Recipe[Settings]:
    return Recipe(
        **facts(name),
        seeds=4,
        config=Settings,
        build=lambda config: _gate.build(config, instances),
        claims=lambda config, outcomes: _gate.claims(config, outcomes, instances),
        draw=lambda config, outcomes, folder: _gate.draw(config, outcomes, folder, instances),
        paper_settings=_gate.PAPER_SETTINGS,
        paper_seeds=4,
        claim_texts=(
            "the best stationary policy is better than the best deterministic one",
            "Fed-Q-learning ends no higher than the best deterministic policy",
            "S-, RS- and b-RS-FedPG end above Fed-Q-learning and above every deterministic policy",
        ),
    )


FIG1B = _row(
    "labbi2025/fig1b",
    Instances("Synthetic", synthetic.highly_heterogeneous, seven_state.synthetic, synthetic.GAMMA),
)
FIG1C = _row(
    "labbi2025/fig1c",
    Instances("GridWorld", grid_world.highly_heterogeneous, seven_state.grid_world, grid_world.GAMMA),
)
