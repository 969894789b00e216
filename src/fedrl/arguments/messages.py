"""Messages about arguments that do not fit: what came, what was expected, and the next move."""

import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np
from jax import Array

from fedrl.arguments.fits import (
    FACTORIES,
    AnyCallable,
    as_callable,
    fits,
    has_members,
    is_factory,
    parts,
    result,
    taken,
    would_build,
)
from fedrl.arguments.names import AROUND, ELSEWHERE, ENGINES, EXAMPLES, FUNCTIONS, KINDS, OTHER_NAMES

WORDS = {
    **{int: "a whole number", float: "a number", bool: "True or False"},
    **{str: "text", NoneType: "None", Array: "an array", np.ndarray: "an array"},
}
MOST = 5  # alternatives that one message offers


def required(call: AnyCallable) -> list[str]:
    parameters = FACTORIES[call].parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]


def unknown(call: AnyCallable, name: str) -> str:
    takes = list(FACTORIES[call].parameters)
    likely = [other for other in OTHER_NAMES.get(name, ()) if other.split("=")[0] in takes]
    if not likely and name not in ELSEWHERE:
        likely = difflib.get_close_matches(name, takes, 1)
    meant = f"did you mean {likely[0]}?" if likely else f"{ELSEWHERE.get(name, 'leave it out')}."
    return f"{call.__name__}() has no argument {name!r}; {meant} It takes {_listed(takes, 'and')}"


def missing(call: AnyCallable, names: list[str]) -> str:
    return f"{call.__name__}() is missing {_listed(names, 'and')}; write {usage(call)}"


def too_many(call: AnyCallable, args: tuple[Any, ...]) -> str:
    parameters = FACTORIES[call].parameters.values()
    first = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    taken = f"only {_listed(first, 'and')} by position" if first else "no argument by position"
    rest = f"give the others by name: {_listed(named, 'and')}" if named else f"write {usage(call)}"
    return f"{call.__name__}() takes {taken}, got {len(args)}; {rest}"


def swapped(call: AnyCallable, one: str, other: str) -> str:
    order = [name for name in FACTORIES[call].parameters if name in (one, other)]
    return f"{call.__name__}(): {order[0]} and {order[1]} are swapped; write {usage(call)}"


def misfit(call: AnyCallable, name: str, annotation: Any, value: Any) -> str:
    if is_factory(value) and _would_do(annotation, value):
        return f"{call.__name__}(): {name}={value.__name__} is not called; write {name}={usage(value)}"
    wanted, move = _described(annotation), _move(call, name, annotation, value)
    return f"{call.__name__}(): {name} expects {wanted}, got {_came(value, annotation)}" + (f"; {move}" if move else "")


def out_of_range(name: str, value: Any, wanted: str, hint: str) -> str:
    return f"{name} must be a finite number {wanted}, got {value}" + (f"; {hint}" if hint else "")


def usage(call: AnyCallable) -> str:
    """A call with only the required arguments."""
    parameters = FACTORIES[call].parameters
    named = [f"{n}=…" if parameters[n].kind is inspect.Parameter.KEYWORD_ONLY else n for n in required(call)]
    return f"{call.__name__}({', '.join(named)})"


def _would_do(annotation: Any, factory: AnyCallable) -> bool:
    """Whether the result of `factory` fits."""
    made = factory if inspect.isclass(factory) else FACTORIES[factory].return_annotation
    return would_build(annotation, made) or any(has_members(part, made) for part in parts(annotation))


def _listed(names: list[str], last: str) -> str:
    return f" {last} ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else "nothing"


def _described(annotation: Any) -> str:
    words: list[str] = []
    for part in parts(annotation):
        if get_origin(part) is Literal:
            words += [repr(value) for value in get_args(part)]
        elif get_origin(part) is tuple and get_args(part)[1:] == (...,):
            words.append("a tuple such as (64, 64)")
        elif get_origin(part) is tuple:
            words.append(f"({', '.join(map(_described, get_args(part)))})")
        elif get_origin(part) in (Sequence, Iterable):
            inside = get_args(part)[0]
            words.append("a list" + (f", each {_described(inside)}" if inside is not Any else ""))
        elif get_origin(part) is Callable:
            words.append(_kind(part))
        else:
            words.append(WORDS.get(part) or f"a {getattr(part, '__name__', part)}")
    return _listed(words, "or")


def _kind(annotation: Any) -> str:
    """What to call a function with this annotation: a learner, a selection, …"""
    while get_origin(as_callable(annotation)) is Callable:
        annotation = result(annotation)
    return KINDS.get(getattr(annotation, "__name__", ""), "a function")


def _came(value: Any, annotation: Any) -> str:
    if isinstance(value, str):
        return f"the text {value!r}"
    if hasattr(value, "builds"):
        return f"{_kind(value.builds)}, {value.arguments[0]}(…)"
    if isinstance(value, int | float | bool | NoneType) or (isinstance(value, tuple | list) and len(str(value)) < 60):
        return repr(value)
    counts = [taken(part) for part in parts(annotation) if get_origin(part) is Callable]
    if callable(value) and counts and counts[0] is not None and not inspect.isclass(value):
        return f"the function {getattr(value, '__name__', value)} that cannot be called with {_arguments(counts[0])}"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}" + (f" of shape {value.shape}" if hasattr(value, "shape") else "")


def _arguments(count: int) -> str:
    return "no argument" if not count else f"{count} argument" + "s" * (count > 1)


def _move(call: AnyCallable, name: str, annotation: Any, value: Any) -> str:
    """The next move; empty if the message already says it."""
    kinds = parts(annotation)
    wanted = [part for part in kinds if get_origin(part) is Callable]
    made = _kind_name(result(value.builds)) if hasattr(value, "builds") else ""
    around = (_kind_name(result(wanted[0])), made) if wanted else None
    if around in AROUND:
        return AROUND[around].format(came=f"{value.arguments[0]}(…)")
    if isinstance(value, str) and name == "engine" and value in ENGINES:
        return f"write engine={value}() after `from {ENGINES[value]} import {value}`"
    if isinstance(value, str) and {int, float} & set(kinds) and re.fullmatch(r"-?\d*\.?\d+(e-?\d+)?", value):
        return f"write {name}={value} without quotes"
    if isinstance(value, float) and int in kinds and math.isfinite(value) and abs(value) >= 1:
        return f"write {name}={round(value)}"
    for key in (f"{call.__name__}.{name}", name, *(getattr(part, "__name__", "") for part in kinds)):
        if key in EXAMPLES:
            return f"give {EXAMPLES[key]}"
    if wanted and name in FUNCTIONS:
        return f"give {FUNCTIONS[name]}"
    return _advice(call, name, wanted, value) if wanted else ""


def _advice(call: AnyCallable, name: str, wanted: list[Any], value: Any) -> str:
    """Functions that build what is expected: with this number if one takes it, otherwise how to call them."""
    known = [
        factory
        for factory, signature in FACTORIES.items()
        if factory.__module__.startswith("fedrl.") and any(would_build(w, signature.return_annotation) for w in wanted)
    ]
    known = sorted((one for one in known if one is not call), key=lambda one: (len(required(one)), one.__name__))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (short := [factory for factory in known if _takes(factory, value)]):
        return "write " + _listed([f"{name}={factory.__name__}({value})" for factory in short], "or")
    return "give " + _listed([usage(factory) for factory in known[:MOST]], "or") if known else ""


def _takes(factory: AnyCallable, value: Any) -> bool:
    """Whether `factory` has exactly one required argument and it may be this value, by position."""
    names = required(factory)
    parameters = FACTORIES[factory].parameters
    if len(names) != 1 or parameters[names[0]].kind is inspect.Parameter.KEYWORD_ONLY:
        return False
    if not fits(parameters[names[0]].annotation, value):
        return False
    try:
        factory(value)
    except (TypeError, ValueError):  # out of range: do not suggest it
        return False
    return True


def _kind_name(annotation: Any) -> str:
    return getattr(annotation, "__name__", "")
