"""Arrays as bytes between processes: a small JSON header (shapes, dtypes, a note), then the arrays' memory."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

ALIGNMENT = 64


def pack(leaves: list[Any], note: Any = None) -> bytes:
    """`leaves` may be NumPy or JAX arrays, random keys among them; `note` is anything JSON can hold."""
    arrays = [_to_numpy(leaf) for leaf in leaves]
    kinds = [[x.dtype.name, x.shape, _kind(leaf)] for x, leaf in zip(arrays, leaves, strict=True)]
    header = json.dumps([note, kinds]).encode()
    header += b" " * (-(8 + len(header)) % ALIGNMENT)
    parts: list[Any] = [len(header).to_bytes(8, "little"), header]
    for array in arrays:
        parts += [array.reshape(-1).view(np.uint8), bytes(-array.nbytes % ALIGNMENT)]
    return b"".join(parts)


def unpack(data: bytes | np.ndarray) -> tuple[list[Any], Any]:
    """The leaves and the note. Plain arrays are NumPy views of `data`; keys and weakly typed numbers are JAX's again."""
    size = int.from_bytes(bytes(data[:8]), "little")
    note, kinds = json.loads(bytes(data[8 : 8 + size]))
    leaves, offset = [], 8 + size
    for name, shape, kind in kinds:
        dtype = jnp.dtype(name)
        count = int(np.prod(shape, dtype=np.int64))
        leaves.append(_restore(np.frombuffer(data, dtype, count, offset).reshape(shape), kind))
        offset += count * dtype.itemsize
        offset += -(count * dtype.itemsize) % ALIGNMENT
    return leaves, note


def _to_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _kind(leaf: Any) -> str:
    """ "" for an array, "weak" for one that promotes like a Python number, else the generator of a random key."""
    if _is_key(leaf):
        return str(jax.random.key_impl(leaf))
    return "weak" if isinstance(leaf, jax.Array) and leaf.weak_type else ""


def _restore(array: np.ndarray, kind: str) -> Any:
    if kind == "weak":
        return jnp.full(array.shape, array.dtype.type(0).item()).at[...].set(array)
    return jax.random.wrap_key_data(jnp.array(array), impl=kind) if kind else array


def on_host(leaf: Any) -> Any:
    """As NumPy, unless that would lose the kind of array it is."""
    return leaf if _kind(leaf) else np.asarray(leaf)
