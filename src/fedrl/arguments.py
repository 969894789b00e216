"""Arguments, checked where they are given: a mistake is answered in a sentence before anything compiles.

`@checked` goes on functions that build things (learners, methods, engines, federations). It compares what came with the
signature; `at_least` and `above` check ranges. The sentences are in `argument_errors.py`.
"""

import inspect
import math
import numbers
from collections.abc import Callable, Mapping
from functools import wraps
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
from jax import Array

from fedrl import argument_errors as errors

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which refuses arguments that do not fit its signature.

    A function that it builds remembers how: `built.arguments` is the name and all arguments, defaults included, and
    `built.builds` the annotation of what came out. One that is only handed through keeps what it remembers.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = _bound(call, signature, args, kwargs)
        for name, value in given.arguments.items():
            _check(call, signature, name, value, given.arguments)
        built = function(*args, **kwargs)
        given.apply_defaults()
        if inspect.isfunction(built) and not any(built is value for value in given.arguments.values()):
            remembered = (function.__name__, dict(given.arguments))
            vars(built).update(arguments=remembered, builds=signature.return_annotation)
        return built

    errors.FACTORIES[call] = signature
    return call


def at_least(low: float, hint: str = "", **values: float) -> None:
    """Refuse values below `low`, infinite ones and NaN: `at_least(1, horizon=horizon)`."""
    for name, value in values.items():
        if not low <= value < math.inf:
            raise ValueError(errors.out_of_range(name, value, f"at least {low:g}", hint))


def above(low: float, hint: str = "", **values: float) -> None:
    """Refuse values that are not larger than `low`, infinite ones and NaN: `above(0, eta=eta)`."""
    for name, value in values.items():
        if not low < value < math.inf:
            raise ValueError(errors.out_of_range(name, value, f"larger than {low:g}", hint))


def fits(annotation: Any, value: Any) -> bool:
    """Whether `value` may stand where `annotation` does. What cannot be told by looking is let through."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return any(fits(part, value) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin is tuple and parts[1:] == (...,):
        return isinstance(value, tuple | list) and all(fits(parts[0], item) for item in value)
    if origin is Callable:
        return callable(value) and not errors.is_factory(value) and _same_kind(annotation, value)
    if annotation in (int, float):
        return _is_number(value, whole=annotation is int)
    if annotation is bool:
        return isinstance(value, bool | np.bool_)
    if annotation in (None, NoneType):
        return value is None
    if isinstance(annotation, type) and origin is None and annotation is not Array and not _is_protocol(annotation):
        return isinstance(value, annotation)
    return True


def _is_protocol(annotation: type) -> bool:
    return getattr(annotation, "_is_protocol", False)


def _is_number(value: Any, *, whole: bool) -> bool:
    """Arrays without axes count as the number they hold."""
    if isinstance(value, Array | np.ndarray) and value.shape == ():
        return np.issubdtype(value.dtype, np.integer if whole else np.number)
    return isinstance(value, numbers.Integral if whole else numbers.Real) and not isinstance(value, bool)


def _same_kind(annotation: Any, value: Any) -> bool:
    """Whether a built function returns what is wanted: a learner is no method, though both take one argument."""
    wanted, came = errors.result(annotation), errors.result(getattr(value, "builds", Any))
    return Any in (wanted, came) or wanted == came


def _bound(call: Callable, signature: inspect.Signature, args: tuple, kwargs: Mapping) -> inspect.BoundArguments:
    for name in kwargs:
        if name not in signature.parameters:
            raise TypeError(errors.unknown(call, name))
    by_position = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    rest = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    if len(args) > len(by_position) and not rest:
        raise TypeError(errors.too_many(call, args))
    taken = {p.name for p in by_position[: len(args)]}
    if twice := taken & set(kwargs):
        raise TypeError(f"{call.__name__}() got {twice.pop()} twice, by position and by name; give it once")
    missing = [n for n in errors.required(call) if n not in taken and n not in kwargs]
    if missing:
        raise TypeError(errors.missing(call, missing))
    return signature.bind(*args, **kwargs)


def _check(call: Callable, signature: inspect.Signature, name: str, value: Any, given: Mapping[str, Any]) -> None:
    parameter = signature.parameters[name]
    values = value if parameter.kind is parameter.VAR_POSITIONAL else (value,)
    wrong = [one for one in values if not fits(parameter.annotation, one)]
    if not wrong:
        return
    for other, theirs in given.items():
        wanted = signature.parameters[other].annotation
        if fits(parameter.annotation, theirs) and fits(wanted, value) and not fits(wanted, theirs):
            raise TypeError(errors.swapped(call, name, other))
    raise TypeError(errors.misfit(call, name, parameter.annotation, wrong[0]))
