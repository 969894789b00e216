"""Neural policy for several finite choices at once (MultiDiscrete, MultiBinary): one categorical per dimension."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.arguments import checked_only
from fedrl.environments.protocol import Environment, Host, MultiDiscrete
from fedrl.policies import network
from fedrl.policies.network import Layers
from fedrl.types import BuildPolicy, Policy

ABSENT = -1e30  # the logit of a choice that a dimension does not have; finite, so that 0 * ABSENT is 0


@checked_only
def multi_categorical_mlp(*hidden: int, last: float = 1.0) -> BuildPolicy:
    """One network computes the logits of all dimensions; given the state, dimensions are independent.

    A choice is an int32 vector, and its dimensions are the k decisions of `Policy.log_probs`. With one dimension this is
    `categorical_mlp`.
    """
    network.check_hidden(hidden)

    def build(environment: Environment | Host) -> Policy:
        if not isinstance(environment.actions, MultiDiscrete):
            raise ValueError(
                f"a multi-categorical policy needs several finite choices at once, got {environment.actions}; use mlp"
            )
        size, lay_out = network.inputs(environment.observations)
        counts = np.array(environment.actions.sizes, np.int32)
        most, last_choice = int(counts.max()), counts - 1
        there = np.arange(most)[None, :] < counts[:, None]  # [k, most]
        place = np.where(there, np.cumsum(counts)[:, None] - counts[:, None] + np.arange(most)[None, :], 0)

        def logits(theta: Layers, obs: Any) -> Any:
            """[..., k, most], ABSENT where a dimension has fewer choices than the largest."""
            flat = network.forward(theta, lay_out(obs))
            xp = np if isinstance(flat, np.ndarray) else jnp
            mask = np.broadcast_to(there, (*flat.shape[:-1], *there.shape))
            return xp.where(mask, flat[..., place], np.float32(ABSENT))

        def log_softmax(theta: Layers, obs: Any) -> Array:
            return jax.nn.log_softmax(logits(theta, obs))

        def log_probs(theta: Layers, obs: Any, choice: Array) -> Array:
            return jnp.take_along_axis(log_softmax(theta, obs), choice[..., None], axis=-1)[..., 0]

        def sample(theta: Layers, obs: Any, u: Array) -> Array:
            cumulative = jnp.cumsum(jnp.exp(log_softmax(theta, obs)), axis=-1)
            below = jnp.broadcast_to(u[:, None], cumulative[:, :-1].shape) >= cumulative[:, :-1]
            return jnp.minimum(jnp.sum(below, axis=-1, dtype=jnp.int32), last_choice)

        def host(theta: Layers, obs: np.ndarray, u: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            numbers = logits(theta, obs)
            if u is None:
                choice = np.argmax(numbers, axis=-1).astype(np.int32)
                return choice, choice
            cumulative = np.cumsum(np.exp(numbers - numbers.max(-1, keepdims=True)), axis=-1)
            below = np.sum(u[..., None] * cumulative[..., -1:] >= cumulative[..., :-1], axis=-1)
            choice = np.minimum(below, last_choice).astype(np.int32)
            return choice, choice

        def kl(theta: Layers, other: Layers, obs: Any) -> Array:
            """The sum over dimensions, as they are independent."""
            mine = log_softmax(theta, obs)
            return jnp.sum(jnp.exp(mine) * (mine - log_softmax(other, obs)), axis=(-2, -1))

        def tsallis(theta: Layers, obs: Any, q: float) -> Array:
            """Of the joint choice: its sum of p^q is the product over dimensions; at q = 1 entropies add up."""
            mine = log_softmax(theta, obs)
            if q == 1:
                return -jnp.sum(jnp.exp(mine) * mine, axis=(-2, -1))
            return -jnp.expm1(jnp.sum(jax.nn.logsumexp(q * mine, axis=-1), axis=-1)) / (q - 1)

        return Policy(
            init=lambda key: network.init(key, (size, *hidden, int(counts.sum())), last),
            prepare=lambda theta: theta,
            noise=lambda key, shape: jax.random.uniform(key, (*shape, len(counts))),
            sample=sample,
            action=lambda choice: choice,
            log_probs=log_probs,
            entropy=lambda theta, obs: tsallis(theta, obs, 1.0),
            tsallis=tsallis,
            kl=kl,
            host=host,
            mode=lambda theta, obs: jnp.argmax(logits(theta, obs), axis=-1).astype(jnp.int32),
            decisions=len(counts),
            about={
                "kind": "multi-categorical-mlp",
                "layers": [size, *hidden, int(counts.sum())],
                "activation": network.ACTIVATION,
                "sizes": counts.tolist(),
            },
        )

    return build
