"""The greedy policy of a table of action values, for Q-learning. First maximum on ties."""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.arguments import checked
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.policies.initial_table import Start, initial_table
from fedrl.types import BuildPolicy, Policy


@checked
def greedy_table(start: Start | None = None) -> BuildPolicy:
    """theta [S, A] is Q; acting takes the argmax, so the log-probability of any other action is -inf.

    `start(key, shape)` draws the first Q, by default zero.
    """

    def build(environment: Environment | Host) -> Policy:
        shape = finite_sizes(environment)

        def table(theta: Array) -> Array:
            return jnp.log(jax.nn.one_hot(jnp.argmax(theta, axis=-1), shape[1], dtype=theta.dtype))[..., None]

        return Policy(
            init=initial_table(start, shape, lambda: jnp.zeros(shape)),
            prepare=lambda theta: jnp.argmax(theta, axis=-1),
            noise=jax.random.uniform,
            sample=lambda best, obs, u: best[obs],
            action=lambda choice: choice,
            log_probs=lambda theta, obs, choice: table(theta)[obs, choice],
            mode=lambda theta, obs: jnp.argmax(theta[obs], axis=-1),
            table=table,
            actions=shape[1],
            about={"kind": "greedy-table", "states": shape[0], "actions": shape[1]},
        )

    return build
