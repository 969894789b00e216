"""What the server and an organisation say to each other over Flower: named arrays and a few words. Nothing is pickled.

A leaf of a tree travels under its path, with its dtype and shape, as the bytes that `wire.py` makes of it.
"""

from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
from flwr.app import Array, ArrayRecord

from fedrl.engines import wire
from fedrl.engines.worker import NUMERIC_SETTINGS
from fedrl.trees import Tree

FORMAT = "fedrl.wire"  # what Flower is told the bytes of an array are
PACKAGES = ("fedrl", "jax", "jaxlib", "numpy")


def arrays(leaves: dict[str, Any]) -> dict[str, Array]:
    """Leaves by name as Flower's arrays."""
    return {name: _array(leaf) for name, leaf in leaves.items()}


def tree(came: ArrayRecord, name: str, like: Tree, *, partly: bool = False) -> Tree:
    """The tree `name` as it came; shapes and dtypes must be those of `like`. Partly: what did not come is taken from it."""
    found = {}
    for path, mine in named(name, like).items():
        if path in came:
            found[path] = _same_kind(path, _leaf(path, came[path]), mine)
        elif partly:
            found[path] = mine
        else:
            raise ValueError(f"no array {path} came; install the same fedrl on both sides")
    return jax.tree.unflatten(jax.tree.structure(like), list(found.values()))


def named(name: str, tree: Tree) -> dict[str, Any]:
    """The leaves of a tree in order, by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {"/".join((name, jax.tree_util.keystr(path, simple=True, separator="/"))): leaf for path, leaf in leaves}


def _array(leaf: Any) -> Array:
    host = wire.on_host(leaf)
    return Array(dtype=str(host.dtype), shape=tuple(host.shape), stype=FORMAT, data=wire.pack([host]))


def _leaf(path: str, array: Array) -> Any:
    if array.stype != FORMAT:
        raise ValueError(f"array {path} came as {array.stype!r}, not {FORMAT!r}; install the same fedrl on both sides")
    (leaf,), _ = wire.unpack(array.data)
    return leaf


def _same_kind(path: str, leaf: Any, like: Any) -> Any:
    if leaf.shape != like.shape or leaf.dtype != like.dtype:
        raise ValueError(
            f"array {path} came as {leaf.dtype}{list(leaf.shape)}, expected {like.dtype}{list(like.shape)}; "
            "install the same fedrl on both sides"
        )
    return leaf


def looked_at(send: Any, server: Tree) -> dict[str, Any]:
    """The leaves of the server that `send` (a client's message) depends on; nobody is told the others."""
    jaxpr = jax.make_jaxpr(send)(server, jnp.int32(0)).jaxpr
    used = {id(variable) for equation in jaxpr.eqns for variable in equation.invars} | {id(v) for v in jaxpr.outvars}
    leaves = named("server", server).items()
    return {path: leaf for (path, leaf), v in zip(leaves, jaxpr.invars, strict=False) if id(v) in used}


def clients_of(text: Any) -> list[range]:
    """Whose work a node does, as its owner wrote it: "0-9", or "0-4,7,12-19"."""
    try:
        parts = [part.split("-") for part in str(text).replace(" ", "").split(",")]
        found = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
        if all(len(part) <= 2 and of for part, of in zip(parts, found, strict=True)):
            return found
    except ValueError:
        pass
    raise ValueError(
        f"clients={text!r} does not say whose work this node does; start it with --node-config 'clients=\"0-9\"'"
    )


def about() -> dict[str, str]:
    """What must be the same wherever a run is played: versions, and JAX's settings that decide numbers."""
    return {name: version(name) for name in PACKAGES} | {
        name: str(jax.config.values[name]) for name in NUMERIC_SETTINGS
    }
