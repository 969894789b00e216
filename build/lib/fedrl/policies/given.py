"""What a policy is given: one observation or many, checked as strictly as in training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedrl.environments.checks import Fault
from fedrl.environments.spaces import Description

Many = Sequence[Any] | np.ndarray
HOW = "pass one observation, a list of them, or arrays with a leading axis as gymnasium.vector gives them"


def rows_of(description: Description, fault: Fault, given: Any) -> tuple[Many, bool]:
    """The observations in `given`, and whether it was but one; a `ValueError` says what came and what was wanted."""
    said = fault([given])
    if said is None:
        return [given], True
    many = _several(description, given)
    if many is None:
        raise ValueError(f"the observation is {said}; {HOW}")
    if len(many) == 0:
        raise ValueError(f"no observations came (an empty batch), wanted at least one; {HOW}")
    if fault(many):
        place, said = next((place, said) for place, one in enumerate(many) if (said := fault([one])))
        raise ValueError(f"observation {place} of {len(many)} is {said}; {HOW}")
    return many, False


def check_finite(seen: np.ndarray) -> None:
    if not np.isfinite(seen).all():
        raise ValueError("an observation holds NaN or infinity, wanted finite numbers; look at where it comes from")


def _several(description: Description, given: Any) -> Many | None:
    """`given` taken as many observations, None if it cannot be: a list of them, or stacked entry by entry."""
    if description["type"] not in ("dict", "tuple"):
        return _array(description, given)
    stacked = _unstacked(description, given)
    if stacked is not None:
        return stacked
    listed = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim > 0)
    return given if listed else None


def _unstacked(description: Description, stacked: Any) -> Many | None:
    """The observations whose entries `stacked` has one above the other: a dict of arrays, a tuple of arrays."""
    kind = description["type"]
    parts: Any = description.get("spaces")
    if kind == "dict":
        if not isinstance(stacked, Mapping) or set(stacked) != set(parts):
            return None
        columns = [_unstacked(part, stacked[name]) for name, part in parts.items()]
        return _zipped(columns, lambda row: dict(zip(parts, row, strict=True)))
    if kind == "tuple":
        if not isinstance(stacked, tuple) or len(stacked) != len(parts):
            return None
        return _zipped([_unstacked(part, x) for part, x in zip(parts, stacked, strict=True)], tuple)
    return _array(description, stacked) if hasattr(stacked, "shape") else None


def _zipped(columns: list[Any], joined: Any) -> list[Any] | None:
    if any(column is None for column in columns) or len({len(column) for column in columns}) != 1:
        return None
    return [joined(row) for row in zip(*columns, strict=True)]


def _array(description: Description, given: Any) -> np.ndarray | None:
    """`given` as an array with one axis more than an observation has, None if it has not."""
    depth = {"discrete": 0, "multi_discrete": np.ndim(description.get("nvec", 0))}
    try:
        array = np.asarray(given)
    except ValueError:  # ragged
        return None
    return array if array.ndim == 1 + depth.get(description["type"], len(description.get("shape", ()))) else None
