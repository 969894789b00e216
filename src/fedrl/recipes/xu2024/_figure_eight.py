"""Shared by the recipes on Figure Eight (`xu2024` §VII): the environment, in arrays or in SUMO; PPO; the evaluation.

Of Table III: m = 7, T = 1500, P = 250, gamma 0.9, clip 0.2, 4 passes over a mini-batch. What the paper does not say is ours:
two layers of 64 tanh units for actor and critic, Adam, lambda 0.95 of GAE, filtered observations, and the settings of the
environment (`environments/traffic/sumo/figure_eight.py`). An epoch is 6 mini-batches.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp

from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import SIXTEEN_LINKS, THIRTEEN_LINKS
from fedrl.engines.engine import Engine
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.traffic import figure_eight
from fedrl.evaluation import sampled_return
from fedrl.experiments.recipe import Arm, Outcome, RecipeError
from fedrl.federations.federation import Federation, Method
from fedrl.learners.decay import constant as undecayed
from fedrl.learners.decay import exponential
from fedrl.learners.local_step_counts import StepCounts, fixed_steps
from fedrl.learners.optimizers import adam, constant, sgd
from fedrl.learners.ppo import ppo
from fedrl.policies.mlp import gaussian_mlp
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _references as references
from fedrl.theory.utility import Row
from fedrl.types import BuildLearner

GRAPHS = {0: None, 13: THIRTEEN_LINKS, 16: SIXTEEN_LINKS}
AGENTS, SPEED = 7, 20.0  # m/s that earn 1


@dataclass(frozen=True)
class Config:
    simulator: str = "arrays"  # "arrays" or "sumo" (real, some hundred times slower)
    epochs: int = 60  # U: epochs of training
    length: int = 1500  # T: steps of an epoch
    minibatch: int = 250  # P: steps between two local updates
    acceleration: float = 1.0  # m/s^2 for an action of 1; Flow's benchmark allows 3
    relative: bool = False  # agents observe gaps to their neighbours instead of their neighbours' positions
    gamma: float = 0.9  # discount factor of a step of 0.1 s
    gae_lambda: float = 0.95  # of generalised advantage estimation
    eta: float = 1e-3  # step size: Table III says 1e-4, Figure 5 that 1e-3 is better
    optimizer: Literal["adam", "sgd"] = "adam"  # of actor and critic; the theory assumes plain sgd
    hidden: int = 64  # units in each layer of the networks
    last: float = 1.0  # factor on the first weights of the last layer, of actor and critic; 0.01 starts both near zero
    filters: Literal["pooled", "own"] = "own"  # statistics that standardise observations: each agent's, or pooled
    log_std: float = 0.0  # logarithm of the standard deviation of actions at first
    hold: int = 1  # steps for which an agent's deviation from its mean action stays the same
    repetitions: int = 5  # episodes of a test
    test_every: int = 10  # epochs between two tests


PAPER_SETTINGS = {"epochs": 500}


def learner(config: Config, eta: float | None = None, remember: int = 0) -> BuildLearner:
    """PPO; with `remember` it also has a loss on its last mini-batches."""
    step_size = config.eta if eta is None else eta
    optimizers = {"adam": (adam(clip=0.5), adam()), "sgd": (sgd(0.0), sgd(0.0))}
    if config.optimizer not in optimizers:
        raise RecipeError(f"optimizer is adam or sgd, got {config.optimizer!r}; try --set optimizer=sgd")
    optimizer, critic_optimizer = optimizers[config.optimizer]
    return ppo(
        policy=gaussian_mlp(config.hidden, config.hidden, last=config.last, log_std=config.log_std, hold=config.hold),
        value=(config.hidden, config.hidden),
        value_last=config.last,
        steps=config.minibatch,
        num_envs=1,
        epochs=4,
        minibatch=config.minibatch,
        optimizer=optimizer,
        learning_rate=constant(step_size),
        critic_optimizer=critic_optimizer,
        critic_learning_rate=step_size,
        critic_epochs=4,
        critic_minibatch=config.minibatch,
        gae_lambda=config.gae_lambda,
        filter_rewards=False,
        filters=config.filters,
        remember=remember,
        warm_up=remember * config.minibatch,
    )


def variant(config: Config, row: Row, eta: float | None = None) -> Method:
    """The method of a row of Table IV."""
    return fmarl(
        learner(config, eta),
        tau=row.tau,
        pace=pace(row),
        decay=undecayed if row.lam is None else exponential(row.lam),
        graph=GRAPHS[row.links],
        interactions=row.E,
    )


def pace(row: Row) -> StepCounts | None:
    return None if set(row.tau_i) == {row.tau} else fixed_steps(row.tau_i)


def arm(config: Config, method: Method, tau: int = 1) -> Arm:
    """tau local updates per round; the number of rounds is such that all arms see the same epochs."""
    if config.length % config.minibatch or config.epochs < 1:
        raise RecipeError(
            f"length={config.length} must be a multiple of minibatch={config.minibatch}, and epochs at least 1, "
            f"got {config.epochs}; try --set minibatch=250 --set length=1500"
        )
    return Arm(
        method,
        federation(config),
        rounds(config, tau),
        _engine(config),
        evaluation=sampled_return(config.repetitions, per_step=True),
        eval_every=max(1, round(config.test_every * config.length / config.minibatch / tau)),
    )


def rounds(config: Config, tau: int) -> int:
    return max(1, config.epochs * config.length // config.minibatch // tau)


def federation(config: Config) -> Federation:
    if config.simulator == "sumo":
        from fedrl.environments.traffic.sumo import FigureEight
        from fedrl.federations.pettingzoo_envs import pettingzoo

        world = partial(FigureEight, acceleration=config.acceleration, relative=config.relative, horizon=config.length)
        return pettingzoo(world, max_episode_steps=config.length, gamma=config.gamma)
    if config.simulator != "arrays":
        raise RecipeError(f"simulator is arrays or sumo, got {config.simulator!r}; try --set simulator=sumo")
    one = figure_eight.params(acceleration=config.acceleration, v_ref=SPEED)
    env_params = jax.tree.map(lambda x: jnp.broadcast_to(x, (AGENTS,)), one)
    return Federation(figure_eight.environment(config.gamma, config.length, config.relative), env_params)


def _engine(config: Config) -> Engine:
    return one_at_a_time() if config.simulator == "sumo" else fused("vmap")


def draw(config: Config, arms: dict[str, Outcome], path: Path, title: str) -> Path:
    levels = references.figure_eight(config.length, config.acceleration)
    return curves.draw(arms, levels, path, title, epochs=config.epochs, v_ref=SPEED)
