"""A recipe of one round in traffic, in arrays or in SUMO, for tests of what is drawn of it."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from support import tiny_recipes

import fedrl
from fedrl.algorithms.fmarl import fmarl
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.traffic import figure_eight
from fedrl.evaluation import sampled_return
from fedrl.experiments.recipe import Arm
from fedrl.federations.federation import Federation
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.mlp import gaussian_mlp

LIMIT = 40


@dataclass(frozen=True)
class Config:
    world: str = "arrays"


def build(config: Config) -> dict[str, Arm]:
    method = fmarl(
        gradient_learner(reinforce(horizon=5, batch=1), eta=1e-3, local_steps=1, policy=gaussian_mlp(4)), tau=1
    )
    return {"FIRL": Arm(method, federation(config.world), 1, one_at_a_time(), sampled_return(1, horizon=5))}


def federation(world: str) -> Federation:
    if world == "arrays":
        env_params = figure_eight.params(v_ref=np.full(7, 20.0))
        return Federation(figure_eight.environment(max_episode_steps=LIMIT, relative=True), env_params)
    from fedrl.environments.traffic import sumo

    kind = {"sumo": sumo.FigureEight, "merge": partial(sumo.Merge, warm_up=100)}[world]
    return fedrl.pettingzoo(partial(kind, horizon=LIMIT), max_episode_steps=LIMIT)


TRAFFIC = tiny_recipes.TINY._replace(config=Config, build=build, seeds=1)
