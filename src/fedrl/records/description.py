"""A method, a learner or a federation as plain data that TOML can hold: names, settings, digests of arrays.

Methods are functions made by functions, so what they are set to is what they close over, under the names of the arguments.
The description of equal things is the same in every process.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.records import user_code

FEW = 8  # an array of up to this many numbers is written out
LONG = 400  # characters; a longer list or dict is written as its digest
RESERVED = ("function", "kind", "code", "of")
Description = Any  # text, numbers, booleans, lists and dicts of them


def describe(value: Any, inside: tuple[int, ...] = ()) -> Description:
    """`value` as plain data; None stays None. `inside` holds the ids of what it is a part of, in case it holds itself.

    Records and dataclasses are described by their fields, functions by name and by what they close over (those of the
    user also by their code), objects of the user by their plain attributes, and any other object by its class alone.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind) and not isinstance(value, Enum):
            return kind(value)
    if id(value) in inside:
        return "itself"
    inside = (*inside, id(value))
    if isinstance(value, np.ndarray | jax.Array):
        return _array(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes, {_digest(value)}"
    if isinstance(value, Enum | PurePath | complex):
        return str(value)
    if isinstance(value, dict):
        return _short(_table({str(key): item for key, item in value.items()}, inside))
    if (fields := _fields(value)) is not None:
        return _table(fields, inside, kind=type(value).__name__)
    if isinstance(value, list | tuple):
        return _short([describe(item, inside) for item in value])
    if isinstance(value, set | frozenset):
        return _short(sorted((describe(item, inside) for item in value), key=repr))
    return _function(value, inside) if callable(value) else _object(value, inside)


def _fields(value: Any) -> dict[str, Any] | None:
    """Of a record or a dataclass; fields that do not count when two are compared do not count here."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
    return None


def _function(value: Any, inside: tuple[int, ...]) -> Description:
    if isinstance(value, functools.partial):
        given = {str(place): argument for place, argument in enumerate(value.args)} | value.keywords
        return _table(given, inside, function="functools.partial", of=describe(value.func, inside))
    if isinstance(value, MethodType):
        return _table({}, inside, function=_name(value), of=describe(value.__self__, inside))
    if isinstance(value, type):
        return _users(value, {}, inside) if user_code.is_users(value) else _name(value)
    if not isinstance(value, FunctionType):  # compiled or cached: what it was made of
        if hasattr(value, "__wrapped__"):
            return describe(value.__wrapped__, inside)
        return _name(value) if hasattr(value, "__name__") else _object(value, inside)
    if user_code.is_users(value):
        return _users(value, dict(_settings(value)), inside)
    if told := getattr(value, "arguments", None):  # the factory and what it was given, as the user wrote it
        return _table(told[1], inside, function=told[0])
    settings = dict(_settings(value))
    return _table(settings, inside, function=_name(value)) if settings else _name(value)


def _settings(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function was given when it was made: what it closes over, and defaults that are not the package's own."""
    code = function.__code__
    if "<locals>" in function.__qualname__ or user_code.is_users(function):
        names = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
        yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__" and cell != type(cell)():  # an empty cell is a name that was never given
            yield name, cell.cell_contents


def _users(thing: Any, settings: dict[str, Any], inside: tuple[int, ...]) -> Description:
    code, data = user_code.read(thing)
    known = {name: value for name, value in data.items() if name not in settings}
    return _table(known | settings, inside, function=thing.__qualname__.rpartition("<locals>.")[2], code=code)


def _object(value: Any, inside: tuple[int, ...]) -> Description:
    """Of the user's own, what it was set to; of all others the class, as they may change while they are used."""
    if isinstance(value, ModuleType):
        return value.__name__
    if not user_code.is_users(type(value)):
        return _name(type(value))
    own = {name: it for name, it in getattr(value, "__dict__", {}).items() if user_code.is_data(it) or callable(it)}
    return _users(type(value), own, inside)


def _table(settings: dict[str, Any], inside: tuple[int, ...], **own: Any) -> dict[str, Description]:
    """TOML has no None: what is None is left out."""
    named = {f"{name}_" if name in RESERVED else name: describe(it, inside) for name, it in settings.items()}
    return own | {name: it for name, it in named.items() if it is not None}


def _short(content: list | dict) -> Description:
    if isinstance(content, list):
        content = ["None" if item is None else item for item in content]
    text = json.dumps(content, sort_keys=True)
    most = LONG if text.count("{") <= isinstance(content, dict) else 10 * LONG  # settings should be read, data need not
    return content if len(text) <= most else f"{len(content)} items, {_digest(text.encode())}"


def _array(value: Any) -> Description:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return f"key {_array(jax.random.key_data(value))}"
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "bif":
        return array.item()
    shown = array.tolist() if array.size <= FEW else None
    if array.dtype.kind == "O":
        shown = _short([describe(item) for item in array.ravel().tolist()])
    return f"{array.dtype}{list(array.shape)} {_digest(array.tobytes()) if shown is None else shown}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _name(thing: Any) -> str:
    """`fedavg`, `finite.environment`: where a function was made, not what its last line calls it."""
    name = str(getattr(thing, "__qualname__", thing.__name__)).split(".<locals>")[0]
    module = (getattr(thing, "__module__", None) or "").rpartition(".")[2]
    return name if module in ("", "__main__", "builtins", name) else f"{module}.{name}"
