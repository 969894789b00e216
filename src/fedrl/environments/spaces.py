"""Gymnasium's spaces as plain dicts, and conversions between an environment's observations and actions and a policy's.

A description survives JSON, and only `describe` needs Gymnasium, so a saved policy can act wherever there is NumPy:

    {"type": "box", "shape": [2], "low": [-1.0, null], "high": 1.0, "dtype": "float32"}
    {"type": "discrete", "n": 4, "start": 0, "dtype": "int64"}
    {"type": "multi_discrete", "nvec": [3, 2], "start": [0, 0], "dtype": "int64"}
    {"type": "multi_binary", "shape": [5]}
    {"type": "dict", "spaces": {"arm": {...}, "eye": {...}}}     {"type": "tuple", "spaces": [{...}, {...}]}

`low` and `high` are flat lists, or one number if all entries share it; null means no bound. A box may be "rescaled":
policies then see [-1, 1] instead of [low, high], in every entry bounded on both sides.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrl.environments.protocol import Box, Discrete, MultiDiscrete, Space

NO_BOUND = 1e30  # some environments write the largest float where they mean no bound

Description = dict[str, Any]


def describe(space: Any, *, rescale: bool = False) -> Description:
    """The description of a Gymnasium space, its boxes rescaled on request; `ValueError` for a space not listed above."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        low, high = (_to_json(np.asarray(bound, np.float64).ravel()) for bound in (space.low, space.high))
        box = {"type": "box", "shape": list(space.shape), "low": low, "high": high, "dtype": space.dtype.name}
        return box | {"rescaled": True} if rescale else box
    if isinstance(space, spaces.Discrete):
        return {"type": "discrete", "n": int(space.n), "start": int(space.start), "dtype": np.dtype(space.dtype).name}
    if isinstance(space, spaces.MultiDiscrete):
        sizes, start = space.nvec.tolist(), space.start.tolist()
        return {"type": "multi_discrete", "nvec": sizes, "start": start, "dtype": np.dtype(space.dtype).name}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "multi_binary", "shape": list(space.shape)}
    if isinstance(space, spaces.Dict) and all(isinstance(name, str) for name in space.spaces):
        inner = {name: describe(part, rescale=rescale) for name, part in sorted(space.spaces.items())}
        return {"type": "dict", "spaces": inner}
    if isinstance(space, spaces.Tuple):
        return {"type": "tuple", "spaces": [describe(part, rescale=rescale) for part in space.spaces]}
    raise ValueError(f"{space} is not one of Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these")


def flatten(description: Description, observations: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Observations as policies see them, from a sequence of native ones or an array [rows, ...].

    int32 [rows] counted from 0 for a Discrete; otherwise float32 [rows, n] as Gymnasium's `flatten` lays it out: Discrete
    and MultiDiscrete as one-hot vectors, the parts of a Tuple in their order, those of a Dict by their sorted names.
    """
    if description["type"] == "discrete":
        indices: np.ndarray = (np.asarray(observations) - description["start"]).astype(np.int32)
        return indices
    return _flat(description, observations)


def unflatten(description: Description, actions: np.ndarray) -> np.ndarray:
    """A policy's actions [rows, ...] as native ones: shape and dtype of the space, clipped to the bounds of a Box."""
    kind = description["type"]
    native: np.ndarray
    if kind == "discrete":
        native = actions.astype(description["dtype"]) + description["start"]
        return native
    if kind == "multi_discrete":
        start = np.asarray(description["start"], description["dtype"])
        native = actions.reshape(len(actions), *start.shape).astype(description["dtype"]) + start
        return native
    if kind == "multi_binary":
        return actions.reshape(len(actions), *description["shape"]).astype(np.int8)
    if kind != "box":
        raise ValueError(f"one policy cannot take actions of type {kind!r}; expected a box or a discrete space")
    low, high = bounds(description)
    flat = actions.reshape(len(actions), -1)
    if description.get("rescaled"):
        bounded, from_low, width = scale(low, high)
        share = (np.clip(flat, -1.0, 1.0) + 1.0) / 2.0
        flat = np.where(bounded, from_low + share * width, flat)
    clipped, dtype = np.clip(flat, low, high), np.dtype(description["dtype"])
    native = np.rint(clipped) if np.issubdtype(dtype, np.integer) else clipped
    return native.reshape(len(actions), *description["shape"]).astype(dtype)


def common(description: Description) -> Description:
    """The description shared by clients whose rescaled boxes have different bounds: -1 and 1 instead of those bounds."""
    kind = description["type"]
    if kind == "dict":
        return description | {"spaces": {name: common(part) for name, part in description["spaces"].items()}}
    if kind == "tuple":
        return description | {"spaces": [common(part) for part in description["spaces"]]}
    if kind != "box" or not description.get("rescaled"):
        return description
    low, high = bounds(description)
    bounded = scale(low, high)[0]
    return description | {
        "low": _to_json(np.where(bounded, -1.0, low)),
        "high": _to_json(np.where(bounded, 1.0, high)),
    }


def is_rescaled(description: Description) -> bool:
    """Whether any box in the description is rescaled."""
    parts = description.get("spaces", ())
    return bool(description.get("rescaled")) or any(
        map(is_rescaled, parts.values() if isinstance(parts, dict) else parts)
    )


def policy_observations(description: Description) -> Discrete | Box:
    """The space of the results of `flatten`."""
    if description["type"] == "discrete":
        return Discrete(description["n"])
    low, high = _flat_bounds(description)
    return Box((len(low),), tuple(map(float, low)), tuple(map(float, high)))


def policy_actions(description: Description) -> Space:
    """The space of the actions that `unflatten` takes."""
    kind = description["type"]
    if kind == "multi_discrete":
        return MultiDiscrete(tuple(np.asarray(description["nvec"]).ravel().tolist()))
    if kind == "multi_binary":
        return MultiDiscrete((2,) * int(np.prod(description["shape"], dtype=int)))
    if kind not in ("box", "discrete"):
        raise ValueError(
            "actions that are a Dict or a Tuple are not supported; expected Box, Discrete, MultiDiscrete or MultiBinary"
        )
    return policy_observations(description)


def bounds(description: Description) -> tuple[np.ndarray, np.ndarray]:
    """`low` and `high` of a box, flat, infinite where there is no bound."""
    size = int(np.prod(description["shape"], dtype=int))

    def expand(bound: Any, if_missing: float) -> np.ndarray:
        if isinstance(bound, list):
            return np.array([if_missing if x is None else x for x in bound], np.float64)
        return np.full(size, if_missing if bound is None else bound, np.float64)

    return expand(description["low"], -np.inf), expand(description["high"], np.inf)


def _flat(description: Description, observations: Sequence[Any] | np.ndarray) -> np.ndarray:
    """As `flatten`, but float32 [rows, n] for every space."""
    kind, rows = description["type"], len(observations)
    if kind == "dict":
        parts = description["spaces"]
        return np.concatenate([_flat(parts[name], [x[name] for x in observations]) for name in sorted(parts)], axis=1)
    if kind == "tuple":
        parts = enumerate(description["spaces"])
        return np.concatenate([_flat(part, [x[i] for x in observations]) for i, part in parts], axis=1)
    flat = np.asarray(observations).reshape(rows, -1)
    if kind in ("discrete", "multi_discrete"):
        return _one_hot(flat - np.ravel(description["start"]), _sizes(description))
    if description.get("rescaled"):
        bounded, low, width = scale(*bounds(description))
        flat = np.where(bounded, 2.0 * (flat - low) / np.where(width > 0, width, 1.0) - (width > 0), flat)
    return flat.astype(np.float32)


def _flat_bounds(description: Description) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the results of `_flat`."""
    kind = description["type"]
    if kind in ("dict", "tuple"):
        parts = description["spaces"]
        bounds_of_parts = [_flat_bounds(part) for part in (parts if kind == "tuple" else map(parts.get, sorted(parts)))]
        return np.concatenate([low for low, _ in bounds_of_parts]), np.concatenate(
            [high for _, high in bounds_of_parts]
        )
    if kind == "box":
        return bounds(common(description))
    count = np.prod(description["shape"], dtype=int) if kind == "multi_binary" else _sizes(description).sum()
    return np.zeros(int(count)), np.ones(int(count))


def _sizes(description: Description) -> np.ndarray:
    """How many values each dimension of a Discrete or MultiDiscrete has."""
    return np.ravel(description["n"] if description["type"] == "discrete" else description["nvec"])


def _one_hot(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """values [rows, k] counted from 0, as k one-hot vectors side by side."""
    one_hot = np.zeros((len(values), int(sizes.sum())), np.float32)
    np.put_along_axis(one_hot, values + np.cumsum(sizes) - sizes, 1.0, axis=1)
    return one_hot


def scale(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which entries have two bounds, and the lower bound and width of those; zero for the others."""
    bounded = (low > -NO_BOUND) & (high < NO_BOUND)
    return bounded, np.where(bounded, low, 0.0), np.subtract(high, low, out=np.zeros_like(high), where=bounded)


def _to_json(bound: np.ndarray) -> Any:
    """As JSON stores it: null for infinite, one number if all entries are equal."""
    entries = [float(x) if np.isfinite(x) else None for x in bound]
    return entries[0] if entries and len(set(entries)) == 1 else entries


def description_of(space: Space) -> Description:
    """The description of one of our own spaces, which compiled environments have."""
    if isinstance(space, Discrete):
        return {"type": "discrete", "n": space.n, "start": 0, "dtype": "int32"}
    if isinstance(space, MultiDiscrete):
        return {"type": "multi_discrete", "nvec": list(space.sizes), "start": [0] * len(space.sizes), "dtype": "int32"}
    low, high = (_to_json(np.asarray(bound, np.float64)) for bound in (space.low, space.high))
    return {"type": "box", "shape": list(space.shape), "low": low, "high": high, "dtype": "float32"}
