"""Bit-level softmax of b-RS-FedPG: an action is a word of k bits, each drawn given the bits before it.

`labbi2025`, §4.4 and App. F.1.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.arguments import checked
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.environments.tabular.finite import draw
from fedrl.policies.initial_table import Start, initial_table
from fedrl.types import BuildPolicy, Policy


def bits_for(actions: int) -> int:
    """k, the length of the words: the least k >= 1 with 2^k >= actions."""
    return max(1, (actions - 1).bit_length())


@checked
def bit_softmax(start: Start | None = None) -> BuildPolicy:
    """theta [S, 2^k - 1, 2]: two logits for every state and word shorter than k.

    `start(key, shape)` draws the first logits, by default zero (every bit is a fair coin).

    Words are ordered as a heap: the prefix of length p with value v is node 2^p - 1 + v, bits most significant first.
    If the number of actions is not a power of two, the remaining words mean the last action (the paper's footnote 1).
    """

    def build(environment: Environment | Host) -> Policy:
        states, actions = finite_sizes(environment)
        k = bits_for(actions)
        shape = (states, 2**k - 1, 2)
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

        def mode(theta: Array, obs: Array) -> Array:
            """The most likely action, as the first word that means it; the remaining words count for the last action."""
            words = jnp.exp(jnp.sum(table(theta), axis=-1))[obs]
            last = jnp.sum(words[..., actions - 1 :], axis=-1, keepdims=True)
            likely = jnp.concatenate([words[..., : actions - 1], last], axis=-1)
            return jnp.argmax(likely, axis=-1).astype(jnp.int32)

        return Policy(
            init=initial_table(start, shape, lambda: jnp.zeros(shape)),
            prepare=prepare,
            noise=jax.random.uniform,
            sample=lambda cumulative, obs, u: draw(cumulative[obs], u),
            action=lambda choice: jnp.minimum(choice, actions - 1),
            log_probs=log_probs,
            mode=mode,
            table=table,
            decisions=k,
            actions=actions,
            about={"kind": "bit-softmax-table", "states": states, "actions": actions, "bits": k},
        )

    return build


def _path(k: int) -> tuple[Array, Array]:
    """For every word, the nodes it passes through and the bit it takes at each."""
    word = np.arange(2**k)[:, None]
    p = np.arange(k)[None, :]
    nodes = 2**p - 1 + (word >> (k - p))
    return jnp.asarray(nodes, jnp.int32), jnp.asarray((word >> (k - 1 - p)) & 1, jnp.int32)
