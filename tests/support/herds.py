"""A small environment shared by three clients: points on a line that are rewarded for being close to each other."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.environments.protocol import Box, Environment, Step
from fedrl.federations.federation import Federation

AGENTS = 3


class Herd(NamedTuple):
    x: Array  # [agents]
    steps: Array


def herd(max_episode_steps: int = 12) -> Federation:
    """An episode terminates when an agent is further than 3 from 0, and is truncated after `max_episode_steps` steps."""

    def step(env_params: Array, state: Herd, action: Array, noise: Array) -> Step:
        x, steps = state.x + 0.1 * action[:, 0] + 0.01 * noise, state.steps + 1
        reward = jnp.broadcast_to(-jnp.mean((x - jnp.mean(x)) ** 2), (AGENTS,))
        return Step(Herd(x, steps), reward, jnp.any(jnp.abs(x) > 3.0), steps >= max_episode_steps)

    environment = Environment(
        prepare=lambda env_params: env_params,
        reset=lambda env_params, noise: Herd(noise, jnp.int32(0)),
        step=step,
        observe=lambda env_params, state: jnp.stack([state.x, jnp.roll(state.x, 1)], axis=-1),
        noise=lambda key, shape: jax.random.normal(key, (*shape, AGENTS)),
        observations=Box((2,), (-9.0,) * 2, (9.0,) * 2),
        actions=Box((1,), (-1.0,), (1.0,)),
        gamma=0.9,
        max_episode_steps=max_episode_steps,
        agents=AGENTS,
    )
    return Federation(environment, np.zeros(AGENTS, np.float32))
