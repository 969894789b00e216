"""Homogeneous control tasks with identical clients: does PPO with federated averaging solve them with every seed?

CartPole with two clients is the smallest neural federation. The goal of MountainCarContinuous is found only by pushing in
one direction for a while, so its exploration noise is held for eight steps. Hopper is MuJoCo's, in worker processes.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.engine import Engine
from fedrl.engines.fused import fused
from fedrl.engines.local_processes import processes
from fedrl.environments.control import cart_pole, mountain_car
from fedrl.evaluation import sampled_return
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Decide, Outcome, Recipe
from fedrl.federations.federation import Federation
from fedrl.learners.optimizers import constant, decaying
from fedrl.learners.ppo import ppo
from fedrl.policies.mlp import categorical_mlp, gaussian_mlp
from fedrl.recipes import facts

ARM = "PPO-FedAvg"


@dataclass(frozen=True)
class CartPole:
    clients: int = 2  # how many learn together
    rounds: int = 50  # rounds of communication
    steps: int = 2000  # environment steps of a client between two rounds
    num_envs: int = 4  # rows these steps are taken in: each as long as an episode may be
    learning_rate: float = 1.5e-3  # of the actor
    decay: float = 0.96  # of the rate per round
    entropy: float = 0.01  # weight of the entropy bonus
    epochs: int = 6  # passes over the steps of an iteration
    minibatch: int = 125  # steps in a gradient
    episodes: int = 10  # of each client in an evaluation
    eval_every: int = 2  # rounds between two evaluations


@dataclass(frozen=True)
class MountainCar:
    clients: int = 8  # how many learn together
    rounds: int = 32  # rounds of communication
    local_steps: int = 2  # iterations of PPO between two rounds
    steps: int = 2048  # environment steps per iteration
    num_envs: int = 2  # rows these steps are taken in
    hold: int = 8  # steps for which the exploration noise stays the same
    learning_rate: float = 1e-3  # of the actor
    epochs: int = 4  # passes over the steps of an iteration
    minibatch: int = 128  # steps in a gradient
    episodes: int = 10  # of each client in an evaluation
    eval_every: int = 2  # rounds between two evaluations


@dataclass(frozen=True)
class Hopper:
    clients: int = 2  # how many learn together
    rounds: int = 120  # rounds of communication
    steps: int = 4000  # environment steps of a client between two rounds
    num_envs: int = 4  # rows these steps are taken in
    learning_rate: float = 3e-4  # of the actor
    decay: float = 0.99  # of the rate per round
    epochs: int = 10  # passes over the steps of an iteration
    minibatch: int = 64  # steps in a gradient
    episodes: int = 5  # of each client in an evaluation
    eval_every: int = 5  # rounds between two evaluations


def _ppo_fedavg(
    config: CartPole | MountainCar | Hopper, federation: Federation, engine: Engine, **settings: Any
) -> dict[str, Arm]:
    """The one arm of these recipes: PPO with the config's sizes, the critic trained as long as the actor."""
    learner = ppo(
        steps=config.steps,
        num_envs=config.num_envs,
        epochs=config.epochs,
        minibatch=config.minibatch,
        critic_epochs=config.epochs,
        critic_minibatch=config.minibatch,
        **settings,
    )
    return {
        ARM: Arm(fedavg(learner), federation, config.rounds, engine, sampled_return(config.episodes), config.eval_every)
    }


def _build_cart_pole(config: CartPole) -> dict[str, Arm]:
    return _ppo_fedavg(
        config,
        Federation(cart_pole.environment(), cart_pole.start_ranges(config.clients, 0.05, 0.05)),
        fused("vmap"),
        policy=categorical_mlp(64, 64, last=0.01),
        learning_rate=decaying(config.learning_rate, decay=config.decay),
        entropy=constant(config.entropy),
        filter_rewards=False,
    )


def _build_mountain_car(config: MountainCar) -> dict[str, Arm]:
    return _ppo_fedavg(
        config,
        Federation(mountain_car.environment(), mountain_car.params(shift=jnp.zeros(config.clients))),
        fused("vmap"),
        policy=gaussian_mlp(64, 64, hold=config.hold),
        local_steps=config.local_steps,
        learning_rate=constant(config.learning_rate),
    )


def _build_hopper(config: Hopper) -> dict[str, Arm]:
    from fedrl.environments.control import mujoco
    from fedrl.environments.control.mujoco_tasks import HOPPER as TASK
    from fedrl.environments.control.mujoco_tasks import params

    return _ppo_fedavg(
        config,
        Federation(mujoco.hopper(), params(TASK, noise=np.full(config.clients, TASK.noise))),
        processes(),
        policy=gaussian_mlp(64, 64, last=0.01),
        learning_rate=decaying(config.learning_rate, decay=config.decay),
    )


def _text(threshold: float) -> str:
    return f"every seed reaches a return of {threshold:g}"


def _solved(threshold: float) -> Decide[Any]:
    """Mean final return over clients at least `threshold`, seed by seed."""

    def claims(config: Any, outcomes: dict[str, Outcome]) -> list[Claim]:
        final = outcomes[ARM].final()
        verdict = judge.HOLDS if (final >= threshold).all() else judge.FAILS
        numbers = {"by seed": final.tolist(), "seconds": outcomes[ARM].rows[-1]["seconds"]}
        return [Claim(_text(threshold), verdict, numbers)]

    return claims


CART_POLE = Recipe(
    **facts("control/cart-pole"),
    seeds=5,
    config=CartPole,
    build=_build_cart_pole,
    claims=_solved(475.0),
    claim_texts=(_text(475.0),),
)
MOUNTAIN_CAR = Recipe(
    **facts("control/mountain-car"),
    seeds=5,
    config=MountainCar,
    build=_build_mountain_car,
    claims=_solved(90.0),
    claim_texts=(_text(90.0),),
)
HOPPER = Recipe(
    **facts("control/hopper"),
    seeds=2,
    config=Hopper,
    build=_build_hopper,
    claims=_solved(1000.0),
    claim_texts=(_text(1000.0),),
)
