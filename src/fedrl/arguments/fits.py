"""Whether a value fits an annotation, as far as can be told by looking at it."""

import inspect
import numbers
from collections.abc import Callable, Iterable, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from jax import Array

AnyCallable = Callable[..., Any]  # a function or a class, whatever it takes
FACTORIES: dict[AnyCallable, inspect.Signature] = {}  # the functions and classes whose arguments are checked
NO_ARRAY = (str, bytes, dict, set, NoneType)


def is_factory(value: Any) -> bool:
    return (inspect.isfunction(value) or inspect.isclass(value)) and value in FACTORIES


def as_callable(annotation: Any) -> Any:
    """A Protocol of functions as the plain Callable it stands for; any other annotation as it is."""
    kind = get_origin(annotation) or annotation
    if not _is_protocol(kind) or "__call__" not in vars(kind):
        return annotation
    parameters = list(inspect.signature(kind.__call__).parameters)[1:]
    returned = get_type_hints(kind.__call__).get("return", Any)
    return Callable[[Any] * len(parameters), returned]


def result(annotation: Any) -> Any:
    """The return type of a function with this annotation, `Any` if unknown."""
    annotation = as_callable(annotation)
    return get_args(annotation)[-1] if get_origin(annotation) is Callable else Any


def parts(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; any other annotation is its own only part. Protocols of functions become Callables."""
    union = get_origin(annotation) in (Union, UnionType)
    return tuple(map(as_callable, get_args(annotation) if union else (annotation,)))


def taken(annotation: Any) -> int | None:
    """How many arguments a function with this annotation takes, None if unknown."""
    args = get_args(as_callable(annotation))
    return len(args[0]) if args and isinstance(args[0], list) else None


def fits(annotation: Any, value: Any) -> bool:
    """Whether `value` fits `annotation`. What cannot be told by looking passes."""
    annotation = as_callable(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(part, value) for part in inner)
    if origin is Literal:
        return any(_is_literally(part, value) for part in inner)
    if origin in (tuple, Sequence, Iterable):
        return _holds(origin, inner, value)
    if origin is Callable:
        return callable(value) and not is_factory(value) and _is_called_so(annotation, value)
    if annotation in (int, float):
        return is_number(value, whole=annotation is int)
    if annotation is bool:
        return isinstance(value, bool | np.bool_)
    if annotation in (None, NoneType):
        return value is None
    if annotation is Array:
        return not isinstance(value, NO_ARRAY) and not callable(value)
    kind = origin or annotation
    if _is_protocol(kind):
        return has_members(kind, value) and not inspect.isclass(value)
    return isinstance(value, kind) if isinstance(kind, type) else True


def is_number(value: Any, *, whole: bool) -> bool:
    """Arrays without axes count as the number they hold."""
    if isinstance(value, Array | np.ndarray) and value.shape == ():
        return np.issubdtype(value.dtype, np.integer if whole else np.number)
    return isinstance(value, numbers.Integral if whole else numbers.Real) and not isinstance(value, bool)


def would_build(wanted: Any, built: Any) -> bool:
    """Whether something annotated `built` certainly fits `wanted`."""
    return built is not Any and any(part == built or _both_make(part, built) for part in parts(wanted))


def has_members(protocol: Any, thing: Any) -> bool:
    """Whether `thing`, an object or its class, has every member of `protocol`; False if that is not a protocol."""
    names = [name for name in vars(protocol) if not name.startswith("_")] if _is_protocol(protocol) else []
    return bool(names) and all(hasattr(thing, name) for name in names)


def binds(function: Any, count: int) -> bool:
    """Whether `function` can be called with `count` positional arguments; True if it has no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # compiled functions have none
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _is_called_so(annotation: Any, value: Any) -> bool:
    """Whether a function takes the right number of arguments and, if fedrl built it, returns the right type."""
    count = taken(annotation)
    if count is not None and not binds(value, count):
        return False
    return _same_result(annotation, getattr(value, "builds", Any))


def _same_result(wanted: Any, built: Any) -> bool:
    ours, theirs = result(wanted), result(built)
    return Any in (ours, theirs) or ours == theirs


def _is_literally(part: Any, value: Any) -> bool:
    if isinstance(part, int) and not isinstance(part, bool):
        return is_number(value, whole=True) and value == part
    return type(value) is type(part) and value == part


def _holds(origin: Any, inner: tuple[Any, ...], value: Any) -> bool:
    """Whether `value` is a sequence of items that fit. Generators are not consumed."""
    listed = value.ndim > 0 if isinstance(value, np.ndarray | Array) else isinstance(value, Sequence)
    if isinstance(value, str | bytes | dict):
        return False
    if not listed:
        return origin is Iterable and hasattr(value, "__iter__")
    if origin is tuple and not isinstance(value, tuple | list):
        return False
    items = list(value)
    if origin is tuple and inner[1:] != (...,):
        return len(items) == len(inner) and all(map(fits, inner, items))
    return all(fits(inner[0], item) for item in items)


def _both_make(wanted: Any, built: Any) -> bool:
    made_by_calls = all(get_origin(as_callable(x)) is Callable for x in (wanted, built))
    if not made_by_calls or result(wanted) is Any:
        return False
    return result(wanted) == result(built) and taken(wanted) in (None, taken(built))


def _is_protocol(annotation: Any) -> bool:
    return isinstance(annotation, type) and getattr(annotation, "_is_protocol", False)
