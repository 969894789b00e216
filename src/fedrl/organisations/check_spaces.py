"""The spaces of an environment beside those of federation.toml: how they differ, and what to paste if there are none."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrl.environments.spaces import Description
from fedrl.organisations import templates

Differences = list[str]


def differences(own: Any, agreed: Any, place: str) -> Differences:
    """One phrase per entry that differs: "observations: shape is [4] here and [3] in federation.toml".

    Of spaces of two types that is all there is to say: they have other entries.
    """
    if isinstance(own, Mapping) and isinstance(agreed, Mapping):
        if own.get("type") != agreed.get("type"):
            return _entry(own.get("type"), agreed.get("type"), place, "type")
        if own.get("type") == agreed.get("type") == "box" and own.get("shape") == agreed.get("shape"):
            own, agreed = _spread(own), _spread(agreed)
        names = sorted(own.keys() | agreed.keys(), key=str)
        return [
            phrase
            for name in names
            if own.get(name) != agreed.get(name)
            for phrase in _entry(own.get(name), agreed.get(name), place, str(name))
        ]
    return [] if own == agreed else [f"{place} is {_show(own)} here and {_show(agreed)} in federation.toml"]


def to_toml(observations: Description, actions: Description) -> str:
    """The tables [spaces.…] to paste into federation.toml."""
    tables = {"observations": observations, "actions": actions}
    return "\n".join(f"[spaces.{name}]\n{templates.table(_plain(space))}" for name, space in tables.items())


def _entry(own: Any, agreed: Any, place: str, name: str) -> Differences:
    if isinstance(own, Mapping) and isinstance(agreed, Mapping):
        return differences(own, agreed, place if name == "spaces" else f"{place} {name}")
    if isinstance(own, list) and isinstance(agreed, list) and len(own) == len(agreed) and name == "spaces":
        pairs = enumerate(zip(own, agreed, strict=True))
        return [phrase for i, (x, y) in pairs if x != y for phrase in differences(x, y, f"{place} {i}")]
    return [f"{place}: {name} is {_show(own)} here and {_show(agreed)} in federation.toml"]


def _spread(box: Mapping[str, Any]) -> dict[str, Any]:
    """One bound for all entries as a list of bounds: both ways to write it are equal."""
    size = int(np.prod(box["shape"], dtype=int))
    return {**box, **{b: box[b] if isinstance(box.get(b), list) else [box.get(b)] * size for b in ("low", "high")}}


def _plain(value: Any) -> Any:
    """Without "rescaled", which is a setting of its own in federation.toml."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items() if name != "rescaled"}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _show(value: Any) -> str:
    """Short enough for a line: a long list by its first entries."""
    if isinstance(value, list) and len(value) > 6:
        return f"[{', '.join(map(_show, value[:5]))}, …]"
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
