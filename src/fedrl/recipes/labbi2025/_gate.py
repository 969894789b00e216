"""Figures 1b and 1c: two clients that need opposite actions in one state, where only a stochastic policy helps both."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp

from fedrl.engines.fused import fused
from fedrl.environments.tabular import solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.environments.tabular.random_mdp import DrawMDP
from fedrl.evaluation import exact_return
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, RecipeError
from fedrl.federations.federation import Federation
from fedrl.recipes.labbi2025 import _family as family
from fedrl.recipes.labbi2025 import _figures
from fedrl.recipes.labbi2025._family import FED_Q, FEDPG
from fedrl.theory import common_policies

CLIENTS = 2  # one of each type


@dataclass(frozen=True)
class Settings:
    instance: str = "paper"  # MDPs as the paper describes them, or "published": the 7-state tables of its code
    conventions: str = "paper"  # or "published": gamma 0.99, b-RS without projection, Fed-Q-learning as in the code
    rounds: int = 1000  # R: rounds of communication
    eval_every: int = 10  # rounds between measurements
    eta: float = 0.01  # step size of all four (the paper gives none for Fed-Q-learning)
    local_steps: int = 5  # H: steps between two rounds
    horizon: int = 20  # T: steps of an episode
    batch: int = 20  # B: episodes per local step; Fed-Q-learning draws T * B samples
    lam: float = 0.05  # weight of the entropy in RS- and b-RS-FedPG
    world_seed: int = 0  # of the MDPs, which are the same for all seeds of a run
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


PAPER_SETTINGS = {"rounds": 6000, "eval_every": 20}


class Instances(NamedTuple):
    name: str
    paper: Callable[[], DrawMDP]
    published: Callable[[], DrawMDP]
    gamma: float  # the paper's

    def env_params(self, config: Settings) -> MDP:
        if config.instance not in ("paper", "published"):
            raise RecipeError(f"instance must be 'paper' or 'published', got {config.instance!r}")
        env_params = self.published() if config.instance == "published" else self.paper()
        return family.stack(env_params, CLIENTS, config.world_seed)

    def discount(self, config: Settings) -> float:
        return family.PUBLISHED_GAMMA if family.is_published(config.conventions) else self.gamma


class Known(NamedTuple):
    """Exact values on the instance, evaluated from a uniform start."""

    uniform: float
    deterministic: float
    stationary: float


def build(config: Settings, instances: Instances) -> dict[str, Arm]:
    env_params, gamma, published = (
        instances.env_params(config),
        instances.discount(config),
        family.is_published(config.conventions),
    )
    steps: dict[str, Any] = {"eta": config.eta, "local_steps": config.local_steps, "published": published}
    methods = family.fedpg(**steps, horizon=config.horizon, batch=config.batch, lam=config.lam, gamma=gamma)
    methods[FED_Q] = family.fed_q(**steps, samples=config.horizon * config.batch)
    states = env_params.start.shape[-1]
    evaluation = exact_return(start=jnp.full(states, 1.0 / states))
    federation = Federation(family.environment(env_params, gamma), env_params)
    return {
        name: Arm(method, federation, config.rounds, fused(config.over), evaluation, config.eval_every)
        for name, method in methods.items()
    }


@functools.lru_cache
def known(config: Settings, instances: Instances) -> Known:
    env_params, gamma = family.from_anywhere(instances.env_params(config)), instances.discount(config)
    pi = jnp.full(env_params.reward.shape[1:], 1.0 / env_params.reward.shape[-1])
    return Known(
        float(solvers.average_value(env_params, pi, gamma)),
        float(common_policies.best_deterministic(env_params, gamma).value),
        float(common_policies.best_stationary(env_params, gamma, starts=16).value),
    )


def claims(config: Settings, arms: dict[str, Outcome], instances: Instances) -> list[Claim]:
    exact = known(config, instances)
    gap = exact.stationary - exact.deterministic
    rounding = 1e-5 * abs(exact.stationary)  # of single precision
    found = [
        Claim(
            "the best stationary policy is better than the best deterministic one (exact)",
            judge.HOLDS if gap > rounding else judge.FAILS,
            exact._asdict() | {"difference": gap},
        )
    ]
    greedy = arms[FED_Q].final()
    mean, error = judge.mean_se(greedy)
    found.append(
        Claim(
            f"{FED_Q} ends no higher than the best deterministic policy (exact)",
            judge.HOLDS if float(greedy.max()) <= exact.deterministic + rounding else judge.FAILS,
            {"J": mean, "J se": error, "J of the best seed": float(greedy.max()), "deterministic": exact.deterministic},
        )
    )
    for name in FEDPG:
        found += [_better(name, arms[name], arms[FED_Q]), _beyond(name, arms[name], exact)]
    return found


def _better(name: str, outcome: Outcome, other: Outcome) -> Claim:
    gap, error = judge.difference(outcome.final(), other.final())
    mean, mean_error = judge.mean_se(outcome.final())
    numbers = {"J": mean, "J se": mean_error, "difference": gap, "difference se": error}
    return Claim(f"{name} ends above {FED_Q}", judge.sign(gap, error), numbers)


def _beyond(name: str, outcome: Outcome, exact: Known) -> Claim:
    """What `_better` is meant to show, whatever Fed-Q-learning made of the instance."""
    gap, error = judge.mean_se(outcome.final() - exact.deterministic)
    reached = (gap + exact.deterministic - exact.uniform) / (exact.stationary - exact.uniform)
    numbers = {"difference": gap, "difference se": error, "share from uniform to best stationary": reached}
    return Claim(f"{name} ends above every deterministic policy", judge.sign(gap, error), numbers)


def draw(config: Settings, arms: dict[str, Outcome], folder: Path, instances: Instances) -> list[Path]:
    exact = known(config, instances)
    lines = {"best stationary": exact.stationary, "best deterministic": exact.deterministic}
    title = f"{instances.name}, highly heterogeneous, {config.instance} instance"
    return _figures.gate(arms, folder, title, lines)
