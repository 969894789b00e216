"""Labbi et al. 2025, Fig. 1b: the FedPG variants against Fed-Q-learning on the highly heterogeneous Synthetic."""

from functools import partial

from fedrl.environments import seven_state, synthetic
from fedrl.recipes.labbi2025 import _gate

PAPER = "Labbi et al. 2025, Fig. 1b"
SHOWS = "stochastic policies beat Fed-Q-learning where clients need opposite actions (Synthetic)"
MINUTES = 1.0
SEEDS = 4
PAPER_SEEDS = 4
PAPER_SIZE = _gate.PAPER_SIZE
Config = _gate.Settings
INSTANCES = _gate.Instances("Synthetic", synthetic.highly_heterogeneous, seven_state.synthetic, synthetic.GAMMA)

build = partial(_gate.build, instances=INSTANCES)
claims = partial(_gate.claims, instances=INSTANCES)
draw = partial(_gate.draw, instances=INSTANCES)
