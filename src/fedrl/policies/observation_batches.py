"""The argument of a saved policy: one observation or many, checked as strictly as in training."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedrl.environments.checks import Fault
from fedrl.environments.spaces import Description

Many = Sequence[Any] | np.ndarray
HOW = "pass one observation, a list of them, or arrays with a leading axis as gymnasium.vector returns them"


def split_batch(description: Description, fault: Fault, argument: Any) -> tuple[Many, bool]:
    """The observations in `argument`, and whether it is a single one; `ValueError` if it is neither one nor many."""
    reason = fault([argument])
    if reason is None:
        return [argument], True
    many = _as_many(description, argument)
    if many is None:
        raise ValueError(f"the observation is {reason}; {HOW}")
    if len(many) == 0:
        raise ValueError(f"got no observations (an empty batch), expected at least one; {HOW}")
    if fault(many):
        place, reason = next((place, why) for place, one in enumerate(many) if (why := fault([one])))
        raise ValueError(f"observation {place} of {len(many)} is {reason}; {HOW}")
    return many, False


def check_finite(observations: np.ndarray) -> None:
    if not np.isfinite(observations).all():
        raise ValueError("an observation holds NaN or infinity, expected finite numbers; check where it comes from")


def _as_many(description: Description, argument: Any) -> Many | None:
    """`argument` as many observations: a list of them, or stacked entry by entry. None if it is neither."""
    if description["type"] not in ("dict", "tuple"):
        return _array(description, argument)
    unstacked = _unstack(description, argument)
    if unstacked is not None:
        return unstacked
    if isinstance(argument, list | tuple) or (isinstance(argument, np.ndarray) and argument.ndim > 0):
        return argument
    return None


def _unstack(description: Description, stacked: Any) -> Many | None:
    """The observations in a dict of arrays or a tuple of arrays, each array with a leading axis; None if it is neither."""
    kind = description["type"]
    parts: Any = description.get("spaces")
    if kind == "dict":
        if not isinstance(stacked, Mapping) or set(stacked) != set(parts):
            return None
        columns = [_unstack(part, stacked[name]) for name, part in parts.items()]
        return _zip(columns, lambda row: dict(zip(parts, row, strict=True)))
    if kind == "tuple":
        if not isinstance(stacked, tuple) or len(stacked) != len(parts):
            return None
        return _zip([_unstack(part, x) for part, x in zip(parts, stacked, strict=True)], tuple)
    return _array(description, stacked) if hasattr(stacked, "shape") else None


def _zip(columns: list[Any], join: Callable[[tuple[Any, ...]], Any]) -> list[Any] | None:
    if any(column is None for column in columns) or len({len(column) for column in columns}) != 1:
        return None
    return [join(row) for row in zip(*columns, strict=True)]


def _array(description: Description, argument: Any) -> np.ndarray | None:
    """`argument` as an array with one axis more than an observation; None if it has another number of axes."""
    depth = {"discrete": 0, "multi_discrete": np.ndim(description.get("nvec", 0))}
    try:
        array = np.asarray(argument)
    except ValueError:  # ragged
        return None
    return array if array.ndim == 1 + depth.get(description["type"], len(description.get("shape", ()))) else None
