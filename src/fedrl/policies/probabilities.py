"""A table of action probabilities: theta is pi itself, so a mean of parameters is the mean of the policies."""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.arguments import checked
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.environments.tabular.finite import draw
from fedrl.policies.initial_table import Start, initial_table
from fedrl.types import BuildPolicy, Policy


@checked
def probability_table(
    start: Start | None = None,
) -> BuildPolicy:
    """theta [S, A], rows are distributions; `start(key, shape)` draws the first ones, by default uniform.

    Linear in its parameters: eps_theta of `xie2025`, Lemma 5, is zero. An action never taken has
    log-probability -inf.
    """

    def build(environment: Environment | Host) -> Policy:
        shape = finite_sizes(environment)

        def prepare(theta: Array) -> Array:
            cumulative = jnp.cumsum(theta, axis=-1)
            return cumulative / cumulative[:, -1:]  # exactly one from the last possible action on

        return Policy(
            init=initial_table(start, shape, lambda: jnp.full(shape, 1.0 / shape[1]), distributions=True),
            prepare=prepare,
            noise=jax.random.uniform,
            sample=lambda cumulative, obs, u: draw(cumulative[obs], u),
            action=lambda choice: choice,
            log_probs=lambda theta, obs, choice: jnp.log(theta)[obs, choice][..., None],
            mode=lambda theta, obs: jnp.argmax(theta[obs], axis=-1).astype(jnp.int32),
            table=lambda theta: jnp.log(theta)[..., None],
            actions=shape[1],
            about={"kind": "probability-table", "states": shape[0], "actions": shape[1]},
        )

    return build
