"""A pytree of arrays as one `.safetensors` file; equal arrays always give equal bytes."""

import errno
import json
import os
import secrets
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from fedrl.trees import Tree

_CODES = {"bool": "BOOL", "bfloat16": "BF16", "complex64": "C64"} | {
    f"{word}{bits}": f"{letter}{bits}"
    for word, letter, sizes in (
        ("float", "F", (16, 32, 64)),
        ("int", "I", (8, 16, 32, 64)),
        ("uint", "U", (8, 16, 32, 64)),
    )
    for bits in sizes
}


def save_tree(path: str | Path, tree: Tree, metadata: dict[str, str] | None = None) -> None:
    """Write `tree` to `path`, atomically."""
    write_atomically(path, to_bytes(tree, metadata))


def load_tree(path: str | Path, like: Tree) -> Tree:
    """The tree stored at `path`; `like` gives its structure, shapes, dtypes and kinds of leaves."""
    return from_bytes(Path(path).read_bytes(), like, name=str(path))


def to_bytes(tree: Tree, metadata: dict[str, str] | None = None) -> bytes:
    """`tree` in the safetensors format, names taken from the key paths ("server/theta/0")."""
    data = save(
        {name: _storable(name, leaf) for name, leaf in named_leaves(tree).items()}, dict(metadata or {}) or None
    )
    # safetensors orders metadata by a hash seeded per process; sorted here, equal trees give equal bytes
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def from_bytes(data: bytes, like: Tree, *, name: str = "these bytes") -> Tree:
    """The tree in `data`, each leaf the kind (JAX, NumPy, key, Python number) that `like` has there."""
    try:
        stored: dict[str, dict[str, Any]] = dict(deserialize(data))
    except SafetensorError as error:
        raise ValueError(f"{name} is not a whole safetensors file ({error}); use another copy") from None
    expected = named_leaves(like)
    missing, extra = sorted(expected.keys() - stored.keys()), sorted(stored.keys() - expected.keys())
    if missing or extra:
        raise ValueError(
            f"{name} does not hold the expected tree: missing {_few(missing)}, unexpected {_few(extra)}; "
            "load it with the algorithm and config that wrote it"
        )
    leaves = [_restore(name, where, stored[where], leaf) for where, leaf in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write `data` so that after a crash at any instant `path` holds either the old bytes or all of the new ones.

    The name of the temporary file contains its process id; the next write removes those of dead processes.
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a folder is refused below
        raise FileExistsError(errno.EEXIST, "it is a device or a pipe, not a file", str(path))
    for stale in path.parent.glob(".*.tmp"):
        if is_temporary(stale.name) and not _alive(int(stale.name.split(".")[-3])):
            stale.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def is_temporary(name: str) -> bool:
    """Whether `name` is that of a temporary file of `write_atomically`."""
    parts = name.split(".")
    return name.startswith(".") and len(parts) >= 5 and parts[-1] == "tmp" and parts[-3].isdecimal()


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` survive a power cut: a file's own fsync does not cover its name.

    Windows cannot open a folder and has no equivalent.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _alive(pid: int) -> bool:
    """Whether a process exists. Windows has no harmless way to ask, so there every process counts as alive."""
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it is alive and belongs to another user
    return True


def named_leaves(tree: Tree) -> dict[str, Any]:
    """Leaves by name in tree order. A key's name ends with its generator, so one kind is never read as another."""
    named: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "value"
        name += f":{jax.random.key_impl(leaf)}" if _is_key(leaf) else ""
        if name in named or name == "__metadata__":
            raise ValueError(
                f"the tree has two leaves called {name!r} or uses a reserved name; rename a field or dict key"
            )
        named[name] = leaf
    return named


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _storable(name: str, leaf: Any) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")
    if array.dtype.name not in _CODES:
        raise ValueError(
            f"leaf {name!r} is {type(leaf).__name__} of dtype {array.dtype}, which cannot be stored; use an array"
        )
    return array


def _restore(file: str, where: str, stored: dict[str, Any], like: Any) -> Any:
    spec: Any = jax.random.key_data(like) if _is_key(like) else like if hasattr(like, "dtype") else np.asarray(like)
    actual, expected = (
        (stored["dtype"], tuple(stored["shape"])),
        (_CODES.get(np.dtype(spec.dtype).name), tuple(spec.shape)),
    )
    if actual != expected:
        raise ValueError(
            f"{file}: {where!r} is {actual[0]}{list(actual[1])}, expected {expected[0]}{list(expected[1])}; "
            "load it with the algorithm and config that wrote it"
        )
    array = np.frombuffer(stored["data"], dtype=np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape)
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.array(array), impl=jax.random.key_impl(like))
    if isinstance(like, np.ndarray):
        return array.copy()
    if isinstance(like, np.generic):
        return array[()]
    if not hasattr(like, "dtype"):
        return array.item()
    # Weak types affect promotion (and whether a program is recompiled), so a resumed run needs them back
    return like.at[...].set(array) if isinstance(like, jax.Array) and like.weak_type else jnp.array(array)


def _few(names: list[str]) -> str:
    return "nothing" if not names else ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
