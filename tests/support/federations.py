"""Small federations that several tests share."""

import jax
import jax.numpy as jnp

from fedrl.environments.protocol import Environment
from fedrl.environments.tabular import finite, random_mdp
from fedrl.environments.tabular.finite import MDP
from fedrl.federations.federation import Federation
from fedrl.keys import of_seed


def random_mdps(clients: int, *, states: int = 4, actions: int = 3, kappa: float = 0.7, seed: int = 0) -> MDP:
    draw = random_mdp.dense(states, actions, kappa)
    return jax.vmap(lambda i: draw(of_seed(seed), i))(jnp.arange(clients))


def federation(clients: int, *, states: int = 4, actions: int = 3, gamma: float = 0.8, **options) -> Federation:
    return Federation(
        environment(states, actions, gamma), random_mdps(clients, states=states, actions=actions), **options
    )


def environment(states: int = 4, actions: int = 3, gamma: float = 0.8) -> Environment:
    return finite.environment(states, actions, gamma)
