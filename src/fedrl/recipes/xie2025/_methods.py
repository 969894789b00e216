"""The five ways of choosing clients that Xie & Song 2025 compare, and PPO with the adaptive KL penalty they train with."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from fedrl.algorithms.fedavg import fedavg
from fedrl.experiments.recipe import RecipeError
from fedrl.federations.federation import Method
from fedrl.learners.optimizers import decaying, dropping, sgd
from fedrl.learners.ppo import ppo
from fedrl.learners.surrogates import adaptive_kl
from fedrl.policies.mlp import gaussian_mlp
from fedrl.selection.by_loss import gradient_norm, power_of_choice
from fedrl.selection.candidates import uniform_of
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.types import BuildLearner

FEDPOHCS, ONE_PHASE, FEDAVG = "FedPOHCS", "FedPOHCS, one phase", "FedAvg"
POWER, GRADIENT = "Power-of-Choice", "GradientNorm"
FOUR = (FEDPOHCS, FEDAVG, POWER, GRADIENT)
BASELINES = (FEDAVG, POWER, GRADIENT)


@dataclass(frozen=True)
class Config:
    """Common settings of this paper's recipes; Mountain Cars and Hoppers override what differs."""

    level: str = "medium"  # heterogeneity: "low", "medium" or "high"
    clients: int = 60  # N: clients in the federation
    candidates: int = 18  # d: clients drawn at random in a round, to choose from
    participants: int = 6  # K: those chosen, which train
    local_steps: int = 5  # I: iterations between two rounds
    rounds: int = 12  # rounds of communication
    eval_every: int = 2  # rounds between two evaluations
    episodes: int = 10  # of each client in an evaluation
    steps: int = 2048  # environment steps per iteration
    num_envs: int = 2  # rows these steps are taken in
    learning_rate: float = 1e-3  # of the methods that choose
    fedavg_learning_rate: float = 5e-3  # FedAvg's own
    decay: float = 0.98  # of the rate per round
    floor: float = 1e-8  # below which the rate does not fall
    epochs: int = 1  # E: passes over the steps of an iteration
    kl_target: float = 3e-3  # of the adaptive KL penalty
    entropy: float = 0.1  # entropy bonus, divided by ten every few rounds (published code)
    critic_epochs: int = 10  # the critic's passes; published: 30 on this and the last batch
    rounding: float = 0.1  # of states and actions in the tabular model
    clip: bool = True  # clip actions to their bounds before that rounding
    advantage: str = "gae"  # in Delta_n: "gae" (paper) or "model" (published: policy evaluation on the tabular model)
    sweeps: int = 100  # time horizon of the visitation frequencies
    filters: Literal["pooled", "own"] = "pooled"  # statistics that standardise observations; published: own
    warm_up: int = 10_240  # steps per client before the first round (published: 100,000 cars, 50,000 hoppers)
    remember: int = 5  # iterations that make up the model


def method(config: Config, name: str, *, entropy_every: int) -> Method:
    """Federated averaging with the clients that the method `name` chooses."""
    if not 1 <= config.participants <= config.candidates:
        raise RecipeError(
            f"participants={config.participants} must lie between 1 and candidates={config.candidates}; "
            "try --set participants=6 --set candidates=18"
        )
    some = config.candidates, config.participants
    model = {name: getattr(config, name) for name in ("rounding", "clip", "sweeps", "advantage")}
    pohcs = partial(fedpohcs, *some, **model)
    choosing = {
        FEDAVG: partial(uniform_of, *some),
        POWER: partial(power_of_choice, *some),
        GRADIENT: partial(gradient_norm, *some),
        FEDPOHCS: pohcs,
        ONE_PHASE: partial(pohcs, phases=1),
    }
    learning_rate = config.fedavg_learning_rate if name == FEDAVG else config.learning_rate
    return fedavg(learner(config, learning_rate, entropy_every), selection=choosing[name]())


def learner(config: Config, learning_rate: float, entropy_every: int) -> BuildLearner:
    """§5.2 and Tables 1 to 3; entropy bonus, clip, warm-up and the critic's settings are of the published code."""
    return ppo(
        policy=gaussian_mlp(64, 64),
        steps=config.steps,
        num_envs=config.num_envs,
        local_steps=config.local_steps,
        trust=adaptive_kl(config.kl_target),
        optimizer=sgd(0.9, clip=10.0),
        learning_rate=decaying(learning_rate, decay=config.decay, floor=config.floor),
        epochs=config.epochs,
        minibatch=128,
        critic_learning_rate=3e-4,
        critic_epochs=config.critic_epochs,
        critic_minibatch=128,
        entropy=dropping(config.entropy, every=entropy_every),
        filters=config.filters,
        warm_up=config.warm_up,
        remember=config.remember,
    )
