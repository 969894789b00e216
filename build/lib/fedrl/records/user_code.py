"""What a function of the user's does, as far as it can be written down: a digest of its code, and the globals it reads.

fedrl and installed packages are known by their versions; what stands in a script or a notebook is known by its code only.
"""

import dataclasses
import functools
import hashlib
import os
import sys
import sysconfig
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from fedrl.records import bytecode

PYTHON = f"python {sys.version_info.major}.{sys.version_info.minor}"  # bytecode differs from one to the next
KNOWN = ("stdlib", "platstdlib", "purelib", "platlib")  # where installed code is
FLAT = (bool, int, float, complex, str, bytes, type(None))
NAMED = (FunctionType, BuiltinFunctionType, type)
SIMULATORS = {("gymnasium", "Env"), ("gym", "Env"), ("pettingzoo", "ParallelEnv"), ("pettingzoo", "AECEnv")}
GENERATED = {  # what Python itself writes for dataclasses and named tuples, and not alike in all its versions
    "__init__", "__new__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__",
    "__delattr__", "__getstate__", "__setstate__", "__replace__", "__getnewargs__", "_make", "_replace", "_asdict",
    "_fields", "_field_defaults",
}  # fmt: skip


def is_users(thing: Any) -> bool:
    """Whether a function, a class or a module is the user's own, not fedrl's, Python's or an installed package's."""
    if isinstance(thing, FunctionType):
        return _users_file(thing.__code__.co_filename)
    module = thing if isinstance(thing, ModuleType) else sys.modules.get(getattr(thing, "__module__", None) or "")
    if module is None or module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return False
    return _users_file(getattr(module, "__file__", None) or "<>")


def read(thing: FunctionType | type) -> tuple[str | None, dict[str, Any]]:
    """The digest of the code of `thing` and of all functions and classes of the user's that it names (None if there is no
    function), and what it finds in global names, attributes of the user's modules, class attributes and default arguments,
    as far as that `is_told`.
    """
    codes: list[tuple[str, bytes]] = []
    data: dict[str, Any] = {}
    names: set[str] = set()
    waiting: list[tuple[str, Any]] = [("", thing)]
    done: set[int] = set()
    while waiting:
        name, it = waiting.pop()
        it = _unwrapped(it)
        if isinstance(it, FunctionType | type) and is_users(it):
            if id(it) not in done:
                done.add(id(it))
                codes.append(
                    (
                        f"{it.__qualname__} {name}",
                        bytecode.essence(it.__code__) if isinstance(it, FunctionType) else b"",
                    )
                )
                waiting += _named(it)
                if isinstance(it, FunctionType):
                    names |= bytecode.names(it)
                    waiting += [(f"{it.__qualname__}.{key}", x) for key, x in settings(it) if it is not thing]
        elif is_told(it) and not _is_plain(it, name) and data.get(name) is not it:
            data[_free(name, data)] = it
    text = b"\n".join(name.encode() + b" " + code for name, code in sorted(codes))
    code = f"{PYTHON}: {hashlib.sha256(text).hexdigest()[:16]}" if any(code for _, code in codes) else None
    return code, {name: _used(it, names) for name, it in sorted(data.items())}


def settings(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function was given when it was made: what it closes over, and defaults that are not the package's own."""
    code = function.__code__
    if "<locals>" in function.__qualname__ or is_users(function):
        names = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
        yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__" and cell != type(cell)():  # an empty cell is a name that was never given
            yield name, cell.cell_contents


def is_told(value: Any, inside: frozenset[int] = frozenset()) -> bool:
    """Whether `value` says what it is set to: data, functions, records, objects of the user's, and containers of these.

    Simulators, random generators and all other foreign objects do not: they may change while they are used.
    """
    if isinstance(value, list | tuple | set | frozenset | dict):
        deeper = inside | {id(value)}
        items = value.values() if isinstance(value, dict) else value
        return id(value) in inside or all(is_told(item, deeper) for item in items)
    if isinstance(value, FLAT) or (hasattr(value, "dtype") and hasattr(value, "shape")):
        return True
    if isinstance(value, (*NAMED, MethodType, functools.partial, SimpleNamespace, Namespace)):
        return True
    if _unwrapped(value) is not value or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return True
    return not isinstance(value, ModuleType) and is_users(type(value)) and not is_simulator(value)


def is_simulator(value: Any) -> bool:
    """Whether it is an environment: then what it is set to cannot be told from what happens in it."""
    return any((base.__module__.partition(".")[0], base.__name__) in SIMULATORS for base in type(value).__mro__)


def _is_plain(value: Any, name: str) -> bool:
    """An installed function or class under its own name, which says no more than the code that names it."""
    if not isinstance(value, NAMED) or getattr(value, "__closure__", None) or hasattr(value, "arguments"):
        return False
    return value.__name__ == name.rpartition(".")[2]


def _unwrapped(value: Any) -> Any:
    """What a cached or compiled function was made of."""
    while not isinstance(value, NAMED) and callable(value) and callable(getattr(value, "__wrapped__", None)):
        value = value.__wrapped__
    return value


def _free(name: str, taken: dict[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def _used(value: Any, names: set[str]) -> Any:
    """Of a namespace, such as a script's arguments, only what some code that was read may ask it for."""
    if type(value) not in (SimpleNamespace, Namespace):
        return value
    return SimpleNamespace(**{name: it for name, it in sorted(vars(value).items()) if name in names})


def _named(thing: FunctionType | type) -> Iterator[tuple[str, Any]]:
    """What the code of `thing` may mean by its global names; of a class, what it has, and its bases."""
    if isinstance(thing, FunctionType):
        yield from _looked_up(bytecode.names(thing), thing.__globals__)
        for name in sorted(bytecode.imported(thing) & sys.modules.keys()):
            if is_users(sys.modules[name]):
                yield from _looked_up(bytecode.names(thing), vars(sys.modules[name]), f"{name}.")
        return
    record = dataclasses.is_dataclass(thing) or hasattr(thing, "_fields")
    for name, value in sorted(vars(thing).items()):
        inner = value.func if isinstance(value, functools.cached_property) else value
        inner = _unwrapped(getattr(inner, "__func__", getattr(inner, "fget", inner)))  # of a method, or a property
        file = inner.__code__.co_filename if isinstance(inner, FunctionType) else "<>"
        if record and name in GENERATED and (file.startswith("<") or not _users_file(file)):
            continue
        if isinstance(inner, FunctionType) or (is_told(inner) and not name.startswith("__")):
            yield f"{thing.__qualname__}.{name}", inner
    yield from ((base.__qualname__, base) for base in thing.__bases__)


def _looked_up(
    names: set[str], where: dict[str, Any], prefix: str = "", inside: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """The values of `names`, also as attributes of the user's modules that are found on the way."""
    for name in sorted(name for name in names & where.keys() if not name.startswith("__")):
        value = where[name]
        if not isinstance(value, ModuleType):
            yield f"{prefix}{name}", value
        elif is_users(value) and value.__name__ not in inside:
            yield from _looked_up(names, vars(value), f"{prefix}{name}.", inside | {value.__name__})


@functools.cache
def _users_file(file: str) -> bool:
    """Code without a file (`python -c`, a notebook's cell) is the user's."""
    if file.startswith("<"):
        return not file.startswith("<frozen")
    known = [Path(__file__).parents[1], *(Path(path) for name in KNOWN if (path := sysconfig.get_path(name)))]
    return not any(Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)) for folder in known)
