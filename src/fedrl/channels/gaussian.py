"""Uploads that are clipped and noisy before they leave the client: the Gaussian mechanism of differential privacy."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.arguments import above, at_least, checked
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Channel, Cohort


@checked
def gaussian(clip: float, noise: float) -> Channel:
    """The client shrinks its upload to Euclidean norm `clip` if it is longer, then adds N(0, (noise clip)^2) to each entry.

    The server adds nothing. noise = 0 and a `clip` that no upload reaches is `plain`.

    What is protected is one upload of one client: two uploads that it might send differ by at most 2 clip, and the noise of
    each entry has standard deviation noise clip. The server sees single uploads, so against the server only this counts
    (local differential privacy). Who sees only the mean of c clients of equal weight sees noise of noise clip / sqrt(c),
    of which one client can move the mean by at most clip / c: sqrt(c) times the multiplier, if all c add their noise.

    There is no accounting yet: nothing computes an epsilon or adds up what the rounds of a run reveal. Measured returns,
    numbers of environment steps, and who answers at all, do not go through the channel. The noise is hidden only as
    far as the client's key is: in a simulation, and wherever the server knows the seed, it can draw the same noise and
    subtract it; sites of organisations draw theirs from a secret. Noise makes uploads longer, by about noise clip
    sqrt(entries): leave room for it in `largest_norm`.
    """
    above(0, "the longest upload that is not shrunk; without a limit leave `channel` out", clip=clip)
    at_least(0, "0 only clips", noise=noise)

    def encode(upload: Tree, cohort: Cohort, slot: Any, key: Key) -> Tree:
        leaves, structure = jax.tree.flatten(upload)
        if not leaves:
            return upload
        wide = [_wide(x) for x in leaves]
        norm = trees.squared_norm(wide) ** 0.5
        factor = jnp.where(norm <= clip, jnp.ones_like(norm), clip / norm)
        sent = trees.scale(factor, wide)
        if noise > 0:
            own_key = keys.of(key, "noise", cohort.ids[slot])  # `key` is common to all clients
            sent = [
                x + noise * clip * jax.random.normal(keys.of(own_key, i), x.shape, x.dtype) for i, x in enumerate(sent)
            ]
        return jax.tree.unflatten(structure, [x.astype(like.dtype) for x, like in zip(sent, leaves, strict=True)])

    return Channel(encode, lambda aggregate, cohort, key: aggregate, perturbs="clips uploads and adds noise to them")


def _wide(x: Array) -> Array:
    """In float32, in which norms and noise are computed."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            f"gaussian can only hide floats, and this learner uploads {x.dtype}{list(x.shape)}, which would travel as "
            "it is; upload floats, or use another channel"
        )
    return x.astype(jnp.float32)
