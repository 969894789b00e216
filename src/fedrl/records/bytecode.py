"""A digest of compiled code and the names it mentions, equal in every process of one Python version."""

import dis
import hashlib
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any


def names(function: FunctionType) -> set[str]:
    """Global names and attributes that the code of `function` mentions."""
    return {name for code in _nested(function.__code__) for name in code.co_names}


def imported(function: FunctionType) -> set[str]:
    """Modules that `function` itself imports."""
    instructions = (step for code in _nested(function.__code__) for step in dis.get_instructions(code))
    return {str(step.argval) for step in instructions if step.opname == "IMPORT_NAME"}


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def essence(code: CodeType) -> bytes:
    """Everything that determines what `code` does: not line numbers, docstring or variable names."""
    documented = code.co_consts and isinstance(code.co_consts[0], str) and not code.co_name.startswith("<")
    constants = code.co_consts[1:] if documented else code.co_consts
    parts = [code.co_code, repr(code.co_names).encode(), *map(_constant, constants)]
    return b"\0".join(hashlib.sha256(part).digest() for part in parts)


def _constant(value: Any) -> bytes:
    if isinstance(value, CodeType):
        return essence(value)
    if isinstance(value, frozenset):  # its order differs between processes
        return repr(sorted(map(repr, value))).encode()
    return repr(value).encode()
