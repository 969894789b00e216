"""Labbi et al. 2025, Fig. 1c: the FedPG variants against Fed-Q-learning on the highly heterogeneous GridWorld."""

from functools import partial

from fedrl.environments import grid_world, seven_state
from fedrl.recipes.labbi2025 import _gate

PAPER = "Labbi et al. 2025, Fig. 1c"
SHOWS = "stochastic policies beat Fed-Q-learning where clients need opposite actions (GridWorld)"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _gate.PAPER_SIZE
Config = _gate.Settings
INSTANCES = _gate.Instances("GridWorld", grid_world.highly_heterogeneous, seven_state.grid_world, grid_world.GAMMA)

build = partial(_gate.build, instances=INSTANCES)
claims = partial(_gate.claims, instances=INSTANCES)
draw = partial(_gate.draw, instances=INSTANCES)
