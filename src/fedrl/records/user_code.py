"""What a function of the user's does, as far as it can be written down: a digest of its code, and the globals it reads.

fedrl and installed packages are known by their versions; what stands in a script or a notebook is known by its code only.
"""

import functools
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

PYTHON = f"python {sys.version_info.major}.{sys.version_info.minor}"  # bytecode differs from one to the next
KNOWN = ("stdlib", "platstdlib", "purelib", "platlib")  # where installed code is
FLAT = (bool, int, float, complex, str, bytes, type(None))


def is_users(thing: Any) -> bool:
    """Whether a function or a class is the user's own, not fedrl's, Python's or an installed package's."""
    if isinstance(thing, FunctionType):
        return _users_file(thing.__code__.co_filename)
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    return (
        module is not None and thing.__module__ != "builtins" and _users_file(getattr(module, "__file__", None) or "<>")
    )


def read(thing: FunctionType | type) -> tuple[str, dict[str, Any]]:
    """The digest of the code of `thing` and of all functions and classes of the user's that it calls by name, and the data
    it finds in global names and class attributes: numbers, text, arrays, and containers of them.
    """
    codes: dict[str, bytes] = {}
    data: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", thing)]
    done: set[int] = set()
    while waiting:
        name, it = waiting.pop()
        if id(it) in done:
            continue
        done.add(id(it))
        if isinstance(it, FunctionType | type) and is_users(it):
            codes[f"{it.__qualname__} {name}"] = _bytes(it.__code__) if isinstance(it, FunctionType) else b""
            waiting += _named(it)
        elif is_data(it) or (isinstance(it, FunctionType) and it.__closure__):
            data[name if name not in data else f"{name}_"] = it
    text = b"\n".join(name.encode() + b" " + code for name, code in sorted(codes.items()))
    return f"{PYTHON}: {hashlib.sha256(text).hexdigest()[:16]}", dict(sorted(data.items()))


def is_data(value: Any) -> bool:
    """Whether `value` is made of numbers, text and arrays only."""
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(is_data, value))
    if isinstance(value, dict):
        return all(map(is_data, value.values()))
    return isinstance(value, FLAT) or (hasattr(value, "dtype") and hasattr(value, "shape"))


def _named(thing: FunctionType | type) -> Iterator[tuple[str, Any]]:
    """What the code of `thing` may mean by its global names; of a class, what it has, and its bases."""
    if isinstance(thing, FunctionType):
        found = {name for code in _nested(thing.__code__) for name in code.co_names} & thing.__globals__.keys()
        yield from ((name, thing.__globals__[name]) for name in sorted(found))
        return
    for name, value in sorted(vars(thing).items()):
        inner = getattr(value, "__func__", getattr(value, "fget", value))  # of a static or class method, or a property
        if isinstance(inner, FunctionType) or (is_data(inner) and not name.startswith("__")):
            yield f"{thing.__qualname__}.{name}", inner
    yield from ((base.__qualname__, base) for base in thing.__bases__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _bytes(code: CodeType) -> bytes:
    """All that decides what `code` does: not its line numbers, its docstring or the names of its variables."""
    documented = code.co_consts and isinstance(code.co_consts[0], str) and not code.co_name.startswith("<")
    constants = code.co_consts[1:] if documented else code.co_consts
    parts = [code.co_code, repr(code.co_names).encode(), *map(_constant, constants)]
    return b"\0".join(hashlib.sha256(part).digest() for part in parts)


def _constant(value: Any) -> bytes:
    if isinstance(value, CodeType):
        return _bytes(value)
    if isinstance(value, frozenset):  # whose order changes from process to process
        return repr(sorted(map(repr, value))).encode()
    return repr(value).encode()


@functools.cache
def _users_file(file: str) -> bool:
    """Code without a file (`python -c`, a notebook's cell) is the user's."""
    if file.startswith("<"):
        return not file.startswith("<frozen")
    known = [Path(__file__).parents[1], *(Path(path) for name in KNOWN if (path := sysconfig.get_path(name)))]
    return not any(Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)) for folder in known)
