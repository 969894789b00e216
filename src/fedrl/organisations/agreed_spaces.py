"""[spaces] of federation.toml, read strictly: the descriptions of `environments.spaces`, "none" where there is no bound."""

import math
from typing import Any

from fedrl.organisations.tables import FileError, Key, Table, fields

BOTH = {"observations": Key((dict,)), "actions": Key((dict,))}
MOST = 2**31 - 1
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = ("float16", "float32", "float64", "bool", *INTEGERS)
TYPE, DTYPE = Key((str,)), Key((str,), "int64")
KEYS = {
    "box": {
        "type": TYPE,
        "shape": Key((list,)),
        "low": Key((list, float, str)),
        "high": Key((list, float, str)),
        "dtype": Key((str,), "float32"),
    },
    "discrete": {
        "type": TYPE,
        "n": Key((int,), least=1, most=MOST),
        "start": Key((int,), 0, -MOST, MOST),
        "dtype": DTYPE,
    },
    "multi_discrete": {"type": TYPE, "nvec": Key((list,)), "start": Key((list,)), "dtype": DTYPE},
    "multi_binary": {"type": TYPE, "shape": Key((list,))},
    "dict": {"type": TYPE, "spaces": Key((dict,))},
    "tuple": {"type": TYPE, "spaces": Key((list,))},
}


def read(table: Table, where: str) -> dict[str, Any]:
    """The spaces of observations and actions; `where` names the file and the table in messages."""
    both = fields(table, BOTH, where)
    return {name: _space(space, f"{where[:-1]}.{name}]") for name, space in both.items()}


def _space(table: Any, where: str) -> dict[str, Any]:
    kind = table.get("type") if isinstance(table, dict) else None
    if not isinstance(kind, str) or kind not in KEYS:
        raise FileError(f"{where} needs a type, one of {', '.join(KEYS)}, got {kind!r:.60}; {_PRINTED}")
    space = fields(table, KEYS[kind], where)
    if kind == "dict":
        return space | {"spaces": {name: _space(part, f"{where} {name}") for name, part in space["spaces"].items()}}
    if kind == "tuple":
        return space | {"spaces": [_space(part, f"{where} {place}") for place, part in enumerate(space["spaces"])]}
    if space.get("dtype", "int64") not in DTYPES:
        raise FileError(
            f"{where}: dtype must be one of {', '.join(DTYPES)}, got {space['dtype']!r:.60}; correct that line"
        )
    for name, least in (("shape", 0), ("nvec", 1)):
        if name in space and not _numbers(space[name], least):
            raise FileError(
                f"{where}: {name} expects a list of whole numbers, got {space[name]!r:.60}; correct that line"
            )
    return _box(space, where) if kind == "box" else space


def _box(space: dict[str, Any], where: str) -> dict[str, Any]:
    size = math.prod(space["shape"])
    for name in ("low", "high"):
        bounds = space[name] if isinstance(space[name], list) else [space[name]]
        if isinstance(space[name], list) and len(bounds) != size:
            raise FileError(
                f"{where}: {name} has {len(bounds)} bounds, and the shape {space['shape']} {size} entries; {_PRINTED}"
            )
        for bound in bounds:
            if bound != "none" and (isinstance(bound, bool) or not isinstance(bound, int | float) or bound != bound):
                raise FileError(
                    f'{where}: {name} expects numbers, or "none" for no bound, got {bound!r:.60}; correct that line'
                )
        plain = [None if bound == "none" or math.isinf(bound) else bound for bound in bounds]
        space = space | {name: plain if isinstance(space[name], list) else plain[0]}
    return space


def _numbers(values: Any, least: int) -> bool:
    """Whether they are whole numbers, in lists of lists, too, as those of a MultiDiscrete of two dimensions."""
    if isinstance(values, list):
        return all(_numbers(value, least) for value in values)
    return isinstance(values, int) and not isinstance(values, bool) and least <= values <= MOST


_PRINTED = "`fedrl federation check` in a site's folder prints those of its environment"
