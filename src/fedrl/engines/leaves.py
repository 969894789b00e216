"""The leaves of trees by their paths, each as bytes of `wire.py`: what travels between organisations.

Whoever receives them knows what to expect. Bytes with any other dtype, shape or length are refused before they are read.
"""

import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.engines import wire
from fedrl.errors import FedRLError
from fedrl.trees import Tree

Leaves = Mapping[str, bytes]


class Unexpected(FedRLError, ValueError):
    """Arrays came that are not the expected ones."""


def named(name: str, tree: Tree) -> dict[str, Any]:
    """The leaves of a tree in order, by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {"/".join((name, jax.tree_util.keystr(path, simple=True, separator="/"))): leaf for path, leaf in leaves}


def packed(leaf: Any) -> bytes:
    return wire.pack([wire.on_host(leaf)])


def unpacked(path: str, data: bytes, like: Any) -> Any:
    """The leaf in `data`, of the dtype, shape and kind of `like`."""
    expected = packed(like)
    header = 8 + int.from_bytes(expected[:8], "little")
    if data[:header] != expected[:header] or len(data) != len(expected):
        raise Unexpected(
            f"array {path} came as {_described(data)}, expected {np.dtype(_dtype(like))}{list(np.shape(like))}; install the "
            "same fedrl on both sides"
        )
    if np.dtype(_dtype(like)) == bool and np.frombuffer(data, np.uint8, offset=header).max(initial=0) > 1:
        raise Unexpected(
            f"array {path} has truth values that are neither 0 nor 1; install the same fedrl on both sides"
        )
    return wire.unpack(data)[0][0]


def tree(leaves: Leaves, name: str, like: Tree, *, partly: bool = False) -> Tree:
    """The tree `name`; with partly=True, leaves that did not come are as in `like`."""
    found = {}
    for path, default in named(name, like).items():
        if path in leaves:
            found[path] = unpacked(path, leaves[path], default)
        elif partly:
            found[path] = default
        else:
            raise Unexpected(f"array {path} is missing; install the same fedrl on both sides")
    return jax.tree.unflatten(jax.tree.structure(like), list(found.values()))


def _dtype(leaf: Any) -> Any:
    return jax.random.key_data(leaf).dtype if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf.dtype


def _described(data: bytes) -> str:
    """What stands in the header of `data`, which may be anything."""
    try:
        header = data[8 : 8 + min(int.from_bytes(data[:8], "little"), 4096)]
        (dtype, shape, _) = json.loads(header)[1][0]
        text = f"{dtype!s:.20}{shape!s:.60}"
        return "".join(c if c.isprintable() else "?" for c in text)
    except Exception as error:  # whatever a stranger may have sent
        return f"{len(data)} bytes that are no array ({type(error).__name__})"
