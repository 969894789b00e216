"""Shared by the recipes of `labbi2025`: the methods and the two tasks."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedrl import keys
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.environments.protocol import Environment
from fedrl.environments.tabular import finite, grid_world, synthetic
from fedrl.environments.tabular.finite import MDP
from fedrl.environments.tabular.random_mdp import DrawMDP
from fedrl.experiments.recipe import RecipeError
from fedrl.federations.federation import Method

FEDPG = ("S-FedPG", "RS-FedPG", "b-RS-FedPG")
FED_Q = "Fed-Q-learning"
PUBLISHED_GAMMA = 0.99
PUBLISHED_Q = {"eta": 0.001, "samples": 20, "unsampled": "decay"}  # one sample per episode, not per step


class Task(NamedTuple):
    name: str
    states: int
    actions: int
    gamma: float
    env_params: Callable[[float, bool], DrawMDP]  # (epsilon, as the published code has it)

    def discount(self, published: bool) -> float:
        return PUBLISHED_GAMMA if published else self.gamma


SYNTHETIC = Task(
    "Synthetic",
    5,
    4,
    synthetic.GAMMA,
    lambda epsilon, published: synthetic.synthetic(epsilon, kinds=2 if published else None),
)
GRID_WORLD = Task(
    "GridWorld",
    8,
    4,
    grid_world.GAMMA,
    lambda epsilon, published: grid_world.grid_world(
        epsilon, start=grid_world.CORNER if published else None, kinds=2 if published else None
    ),
)


def is_published(conventions: str) -> bool:
    if conventions not in ("paper", "published"):
        raise RecipeError(f"conventions must be 'paper' or 'published' (the published code's), got {conventions!r}")
    return conventions == "published"


def stack(draw: DrawMDP, clients: int, world_seed: int) -> MDP:
    """The MDPs of clients 0, 1, …; a larger federation contains the smaller ones."""
    rows = [draw(keys.of_seed(world_seed), jnp.int32(i)) for i in range(clients)]  # no compiling for every size
    mdps: MDP = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    return mdps


def from_anywhere(env_params: MDP) -> MDP:
    """The same MDPs with a uniform start, which is how everything is evaluated."""
    return env_params._replace(start=jnp.full_like(env_params.start, 1.0 / env_params.start.shape[-1]))


def fedpg(
    *, eta: float, local_steps: int, horizon: int, batch: int, lam: float, gamma: float, published: bool
) -> dict[str, Method]:
    """The three variants. The published b-RS-FedPG projects nowhere and discounts its second bit by gamma whole."""
    steps: dict[str, Any] = {"eta": eta, "local_steps": local_steps, "horizon": horizon, "batch": batch}
    bits: dict[str, Any] = {"radius": math.inf, "bit_discount": gamma} if published else {}
    methods = (s_fedpg(**steps), rs_fedpg(lam=lam, **steps), b_rs_fedpg(lam=lam, **steps, **bits))
    return dict(zip(FEDPG, methods, strict=True))


def fed_q(*, eta: float, local_steps: int, samples: int, published: bool) -> Method:
    options: dict[str, Any] = PUBLISHED_Q if published else {"eta": eta, "samples": samples}
    return fed_q_learning(local_steps=local_steps, **options)


def environment(env_params: MDP, gamma: float) -> Environment:
    states, actions = env_params.reward.shape[-2:]
    return finite.environment(states, actions, gamma)
