"""Homogeneous control tasks: does PPO with federated averaging solve them with every seed?"""

from typing import Any

from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.engine import Engine
from fedrl.federation import Federation
from fedrl.local.ppo import ppo
from fedrl.recipes import judging
from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.records.measure import sampled_return

ARM = "PPO-FedAvg"


def ppo_fedavg(config: Any, federation: Federation, engine: Engine, **settings: Any) -> dict[str, Arm]:
    """The one arm of these recipes: PPO with the config's sizes, the critic trained as long as the actor."""
    learner = ppo(
        steps=config.steps,
        copies=config.copies,
        epochs=config.epochs,
        minibatch=config.minibatch,
        critic_epochs=config.epochs,
        critic_minibatch=config.minibatch,
        **settings,
    )
    return {ARM: Arm(fedavg(learner), federation, config.rounds, engine, sampled_return(config.episodes), config.every)}


def solved(arms: dict[str, Outcome], wanted: float) -> list[Claim]:
    """Mean final return over clients at least `wanted`, seed by seed."""
    final = arms[ARM].final()
    verdict = judging.HOLDS if (final >= wanted).all() else judging.FAILS
    numbers = {"by seed": final.tolist(), "seconds": arms[ARM].rows[-1]["seconds"]}
    return [Claim(f"every seed reaches a return of {wanted:g}", verdict, numbers)]
