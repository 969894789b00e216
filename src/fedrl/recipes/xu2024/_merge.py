"""Shared by the recipes on Merge (`xu2024` Figs. 6d to 6f): SUMO, five agents that communicate along the road.

The agents are slots in a row, each linked to the next, so mu_2 = 0.3820 as in the paper. tau = 15 as in Figure 6c. What the
paper does not say is as on Figure Eight (`_figure_eight.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import path as in_a_row
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import sampled_return
from fedrl.experiments.recipe import Arm, Claim, Outcome, RecipeError
from fedrl.policies.mlp import gaussian_mlp
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _references as references
from fedrl.types import BuildLearner

AGENTS, GAMMA, SPEED = 5, 0.9, 25.0  # m/s that earn 1
PAPER_SETTINGS = {"epochs": 500, "repetitions": 5, "test_every": 10}


@dataclass(frozen=True)
class Config:
    epochs: int = 20  # U: epochs of training
    length: int = 1500  # T: steps of an epoch
    minibatch: int = 250  # P: steps between two local updates
    tau: int = 15  # local updates between two averagings
    interactions: int = 1  # E: exchanges with neighbours at a local update
    eta: float = 1e-3  # step size
    hidden: int = 64  # units in each layer of the networks
    filters: Literal["pooled", "own"] = "own"  # statistics that standardise observations: each agent's, or pooled
    repetitions: int = 2  # episodes of a test
    test_every: int = 5  # epochs between two tests


Improve = Callable[..., BuildLearner]  # ppo, trpo or tac with what is its own


def learner(config: Config, improve: Improve) -> BuildLearner:
    return improve(
        policy=gaussian_mlp(config.hidden, config.hidden),
        value=(config.hidden, config.hidden),
        steps=config.minibatch,
        num_envs=1,
        critic_learning_rate=config.eta,
        critic_epochs=4,
        critic_minibatch=config.minibatch,
        filter_rewards=False,
        filters=config.filters,
    )


def build(config: Config, improve: Improve) -> dict[str, Arm]:
    """FIRL and FIRL_C."""
    try:
        from fedrl.environments.traffic.sumo import Merge
    except ImportError as error:
        raise RecipeError(str(error)) from error
    from fedrl.federations.pettingzoo_envs import pettingzoo

    updates = config.epochs * config.length // config.minibatch
    if config.length % config.minibatch or updates < config.tau:
        raise RecipeError(
            f"{config.epochs} epochs of length={config.length} must be whole mini-batches of {config.minibatch}, and at "
            f"least tau={config.tau} of them; try --set minibatch=250 --set epochs=20"
        )
    federation = pettingzoo(
        partial(Merge, slots=AGENTS, horizon=config.length), max_episode_steps=config.length, gamma=GAMMA
    )

    def arm(**talk: Any) -> Arm:
        return Arm(
            fmarl(learner(config, improve), tau=config.tau, **talk),
            federation,
            updates // config.tau,
            one_at_a_time(),
            evaluation=sampled_return(config.repetitions, per_step=True),
            eval_every=max(1, round(config.test_every * config.length / config.minibatch / config.tau)),
        )

    plain, talking = names(config)
    return {plain: arm(), talking: arm(graph=in_a_row(AGENTS), interactions=config.interactions)}


def names(config: Config) -> tuple[str, str]:
    return (
        f"FIRL, tau = {config.tau}",
        f"FIRL_C, tau = {config.tau}, E = {config.interactions}, mu_2 = {in_a_row(AGENTS).mu_2:.4f}",
    )


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """ "FIRL_C can stabilise the model's training process, meanwhile performs well" (Section VII)."""
    plain, talking = (arms[name] for name in names(config))
    return [
        curves.above("FIRL_C is above FIRL (mean over all tests)", curves.whole(talking), curves.whole(plain)),
        curves.above("FIRL_C ends above FIRL", talking.final(), plain.final()),
        curves.above("FIRL varies more from test to test than FIRL_C", _variation(plain), _variation(talking)),
    ]


def _variation(outcome: Outcome) -> np.ndarray:
    """Mean change of NAS between two tests, per seed."""
    return np.asarray(np.abs(np.diff(outcome.curve()[1], axis=0)).mean(axis=0))


def draw(config: Config, arms: dict[str, Outcome], path: Path, title: str) -> Path:
    return curves.draw(arms, references.merge(config.length), path, title, epochs=config.epochs, v_ref=SPEED)
