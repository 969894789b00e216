"""Messages between the server and an organisation over Flower: named arrays and some text. Nothing is pickled.

A leaf of a tree is sent under its path, with its dtype and shape, as bytes of `wire.py`.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flwr.app import Array, ArrayRecord

from fedrl.engines import wire
from fedrl.engines.leaves import named as named
from fedrl.engines.versions import about as about
from fedrl.trees import Tree
from fedrl.types.exchange import Send

FORMAT = "fedrl.wire"  # the format of an array's bytes, as Flower records it


def arrays(leaves: dict[str, Any]) -> dict[str, Array]:
    """Leaves by name as Flower's arrays."""
    return {name: _array(leaf) for name, leaf in leaves.items()}


def tree(record: ArrayRecord, name: str, like: Tree, *, partly: bool = False) -> Tree:
    """The tree `name` of a record; shapes and dtypes must be those of `like`.

    With partly=True, missing leaves are filled from `like`.
    """
    leaves = {}
    for path, default in named(name, like).items():
        if path in record:
            leaves[path] = _check_kind(path, _leaf(path, record[path]), default)
        elif partly:
            leaves[path] = default
        else:
            raise ValueError(f"array {path} is missing; install the same fedrl on both sides")
    return jax.tree.unflatten(jax.tree.structure(like), list(leaves.values()))


def _array(leaf: Any) -> Array:
    host = wire.on_host(leaf)
    return Array(dtype=str(host.dtype), shape=tuple(host.shape), stype=FORMAT, data=wire.pack([host]))


def _leaf(path: str, array: Array) -> Any:
    if array.stype != FORMAT:
        raise ValueError(f"array {path} came as {array.stype!r}, not {FORMAT!r}; install the same fedrl on both sides")
    (leaf,), _ = wire.unpack(array.data)
    return leaf


def _check_kind(path: str, leaf: Any, like: Any) -> Any:
    if leaf.shape != like.shape or leaf.dtype != like.dtype:
        raise ValueError(
            f"array {path} came as {leaf.dtype}{list(leaf.shape)}, expected {like.dtype}{list(like.shape)}; "
            "install the same fedrl on both sides"
        )
    return leaf


def needed_leaves(send: Send, server: Tree) -> dict[str, Any]:
    """The leaves of the server that `send` (a client's message) depends on; the others are not sent."""
    jaxpr = jax.make_jaxpr(send)(server, jnp.int32(0)).jaxpr
    used = {id(variable) for equation in jaxpr.eqns for variable in equation.invars} | {id(v) for v in jaxpr.outvars}
    leaves = named("server", server).items()
    return {path: leaf for (path, leaf), v in zip(leaves, jaxpr.invars, strict=False) if id(v) in used}


def clients_of(text: Any) -> list[range]:
    """The clients of a node, as its owner configured them: "0-9", or "0-4,7,12-19"."""
    try:
        parts = [part.split("-") for part in str(text).replace(" ", "").split(",")]
        ranges = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
        if all(len(part) <= 2 and of for part, of in zip(parts, ranges, strict=True)):
            return ranges
    except ValueError:
        pass
    raise ValueError(
        f"clients={text!r} does not say which clients this node has; start it with --node-config 'clients=\"0-9\"'"
    )
