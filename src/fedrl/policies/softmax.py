"""Softmax over a table of logits: `labbi2025`, Eq. (2)."""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.arguments import checked
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.environments.tabular.finite import draw
from fedrl.policies.initial_table import Start, initial_table
from fedrl.types import BuildPolicy, Policy


@checked
def softmax_table(start: Start | None = None) -> BuildPolicy:
    """theta [S, A]; `start(key, shape)` draws the first logits, by default zero (the uniform policy)."""

    def build(environment: Environment | Host) -> Policy:
        shape = finite_sizes(environment)

        def prepare(theta: Array) -> Array:
            return jnp.cumsum(jnp.exp(jax.nn.log_softmax(theta)), axis=-1)

        def log_probs(theta: Array, obs: Array, choice: Array) -> Array:
            return jax.nn.log_softmax(theta)[obs, choice][..., None]

        return Policy(
            init=initial_table(start, shape, lambda: jnp.zeros(shape)),
            prepare=prepare,
            noise=jax.random.uniform,
            sample=lambda cumulative, obs, u: draw(cumulative[obs], u),
            action=lambda choice: choice,
            log_probs=log_probs,
            mode=lambda theta, obs: jnp.argmax(theta[obs], axis=-1).astype(jnp.int32),
            table=lambda theta: jax.nn.log_softmax(theta)[..., None],
            actions=shape[1],
            about={"kind": "softmax-table", "states": shape[0], "actions": shape[1]},
        )

    return build
