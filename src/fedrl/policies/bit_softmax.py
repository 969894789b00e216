"""Bit-level softmax of b-RS-FedPG: an action is a word of k bits, each drawn given the bits before it.

Labbi et al. 2025, §4.4 and App. F.1.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.environments.finite import draw
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.types import BuildPolicy, Policy


def bits_for(actions: int) -> int:
    """k, the length of the words: the least k >= 1 with 2^k >= actions."""
    return max(1, (actions - 1).bit_length())


def bit_softmax() -> BuildPolicy:
    """theta [S, 2^k - 1, 2]: two logits for every state and word shorter than k.

    Words are ordered as a heap: the prefix of length p with value v is node 2^p - 1 + v, bits most significant first.
    Where the number of actions is no power of two, the words left over mean the last action (the paper's footnote 1).
    """

    def build(environment: Environment | Host) -> Policy:
        states, actions = finite_sizes(environment)
        k = bits_for(actions)
        nodes, bits = _path(k)  # [2^k, k] each

        def log_bits(theta: Array) -> Array:
            """Log-probability of every bit [S, (2^k - 1) * 2]; bit b at node n is column 2n + b."""
            return jax.nn.log_softmax(theta.reshape(-1, 2)).reshape(states, -1)

        def table(theta: Array) -> Array:
            return log_bits(theta)[:, nodes * 2 + bits]

        def prepare(theta: Array) -> Array:
            return jnp.cumsum(jnp.exp(jnp.sum(table(theta), axis=-1)), axis=-1)

        def log_probs(theta: Array, obs: Array, choice: Array) -> Array:
            columns = nodes[choice] * 2 + bits[choice]
            return log_bits(theta)[obs[..., None], columns]

        return Policy(
            init=lambda key: jnp.zeros((states, 2**k - 1, 2)),
            prepare=prepare,
            noise=jax.random.uniform,
            sample=lambda cumulative, obs, u: draw(cumulative[obs], u),
            action=lambda choice: jnp.minimum(choice, actions - 1),
            log_probs=log_probs,
            table=table,
            decisions=k,
            actions=actions,
        )

    return build


def _path(k: int) -> tuple[Array, Array]:
    """For every word, the nodes it passes through and the bit it takes at each."""
    word = np.arange(2**k)[:, None]
    p = np.arange(k)[None, :]
    nodes = 2**p - 1 + (word >> (k - p))
    return jnp.asarray(nodes, jnp.int32), jnp.asarray((word >> (k - 1 - p)) & 1, jnp.int32)
