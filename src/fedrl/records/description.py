"""A method, a learner or a federation as plain data that TOML can hold: names, settings, digests of arrays.

Methods are functions returned by functions, so their settings are what they close over, under the names of the arguments.
Equal things have equal descriptions in every process.
"""

import dataclasses
import functools
import hashlib
import json
from argparse import Namespace
from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.records import user_code

FEW = 8  # an array of up to this many numbers is written out
LONG = 400  # characters; a longer list or dict is replaced by its digest
RESERVED = ("function", "kind", "code", "of")
Description = Any  # text, numbers, booleans, lists and dicts of them


class Walk:
    """The state of a traversal: the objects around the current one, and the descriptions made so far."""

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.known: dict[int, tuple[Any, Description]] = {}  # by id; holding the object keeps its id unique
        self.read = functools.cache(user_code.read)


def describe(value: Any, walk: Walk | None = None) -> Description:
    """`value` as plain data; None stays None.

    Records, dataclasses and namespaces are described by their fields, functions by name and by what they close over (user
    functions also by their code), objects of user classes by their attributes, and any other object by its class alone.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind) and not isinstance(value, Enum):
            return kind(value)
    walk = walk or Walk()
    if id(value) in walk.inside:
        return "itself"
    if id(value) not in walk.known:
        walk.inside.add(id(value))
        walk.known[id(value)] = (value, _described(value, walk))
        walk.inside.remove(id(value))
    return walk.known[id(value)][1]


def _described(value: Any, walk: Walk) -> Description:
    if isinstance(value, np.ndarray | jax.Array):
        return _array(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes, {_digest(value)}"
    if isinstance(value, Enum | PurePath | complex):
        return str(value)
    if isinstance(value, dict):
        return _short(_table({str(key): item for key, item in value.items()}, walk))
    if (fields := _fields(value)) is not None:
        name = type(value).__name__
        return _users(type(value), fields, walk, kind=name) if _is_users(value) else _table(fields, walk, kind=name)
    if isinstance(value, list | tuple):
        return _short([describe(item, walk) for item in value])
    if isinstance(value, set | frozenset):
        return _short(sorted((describe(item, walk) for item in value), key=repr))
    return _function(value, walk) if callable(value) else _object(value, walk)


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a record or a dataclass, except those with `compare=False`."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
    return dict(vars(value)) if isinstance(value, SimpleNamespace | Namespace) else None


def _function(value: Any, walk: Walk) -> Description:
    if isinstance(value, functools.partial):
        arguments = {str(place): argument for place, argument in enumerate(value.args)} | value.keywords
        return _table(arguments, walk, function="functools.partial", of=describe(value.func, walk))
    if isinstance(value, MethodType):
        return _table({}, walk, function=_name(value), of=describe(value.__self__, walk))
    if isinstance(value, type):
        return _users(value, {}, walk) if user_code.is_users(value) else _name(value)
    if not isinstance(value, FunctionType):  # compiled or cached: the function inside
        if hasattr(value, "__wrapped__"):
            return describe(value.__wrapped__, walk)
        return _name(value) if hasattr(value, "__name__") else _object(value, walk)
    if user_code.is_users(value):
        return _users(value, dict(user_code.settings(value)), walk)
    if call := getattr(value, "arguments", None):  # the factory and its arguments, as the user wrote them
        return _table(call[1], walk, function=call[0])
    settings = dict(user_code.settings(value))
    return _table(settings, walk, function=_name(value)) if settings else _name(value)


def _users(thing: Any, settings: dict[str, Any], walk: Walk, **own: Any) -> Description:
    """A user function or class, or an object of such a class, with what its code reads."""
    code, data = walk.read(thing)
    own = own or {"function": thing.__qualname__.rpartition("<locals>.")[2]}
    hidden = settings.keys() | {
        f"{thing.__qualname__}.{name}" for name in settings
    }  # class attributes that instance attributes shadow
    read = {name: value for name, value in data.items() if name not in hidden}
    found = _table(read | settings, walk, **own | ({"code": code} if code else {}))
    return {name: _short(it) if _is_long(it) else it for name, it in found.items()}


def _object(value: Any, walk: Walk) -> Description:
    """Attributes of a user's object; of any other object only the class, as it may change while it is used."""
    if isinstance(value, ModuleType):
        return value.__name__
    if not _is_users(value):
        return _name(type(value))
    own = {} if user_code.is_simulator(value) else dict(_attributes(value))
    return _users(
        type(value), {name: it for name, it in own.items() if user_code.is_describable(it) or callable(it)}, walk
    )


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, in its dict or in slots."""
    yield from getattr(value, "__dict__", {}).items()
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)


def _is_users(value: Any) -> bool:
    return user_code.is_users(type(value))


def _table(settings: dict[str, Any], walk: Walk, **own: Any) -> dict[str, Description]:
    """TOML has no None: such entries are left out."""
    named = {f"{name}_" if name in RESERVED else name: describe(it, walk) for name, it in settings.items()}
    return own | {name: it for name, it in named.items() if it is not None}


def _is_long(content: Description) -> bool:
    """Too long to be read, as of objects that hold many others."""
    return isinstance(content, dict) and len(json.dumps(content)) > 10 * LONG


def _short(content: list[Description] | dict[str, Description]) -> Description:
    if isinstance(content, list):
        content = ["None" if item is None else item for item in content]
    text = json.dumps(content, sort_keys=True)
    most = (
        LONG if text.count("{") <= isinstance(content, dict) else 10 * LONG
    )  # settings should stay readable, data need not
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
    """`fedavg`, `finite.environment`: the function that was called, not the closure it returned."""
    name = str(getattr(thing, "__qualname__", thing.__name__)).split(".<locals>")[0]
    module = (getattr(thing, "__module__", None) or "").rpartition(".")[2]
    return name if module in ("", "__main__", "builtins", name) else f"{module}.{name}"
