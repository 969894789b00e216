"""A small server state with every kind of leaf, for the tests of records."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.records.tensors import to_bytes


class Server(NamedTuple):
    theta: dict
    key: jax.Array
    step: int


def server(value: float) -> Server:
    theta = {"w": jnp.full((2, 3), value), "b": jnp.arange(3, dtype=jnp.bfloat16), "n": np.array([[1, 2], [3, 4]]).T}
    return Server(theta, jax.random.key(int(value)), int(value))


LIKE = server(0)


def same(a, b) -> bool:
    return jax.tree.structure(a) == jax.tree.structure(b) and to_bytes(a) == to_bytes(b)
