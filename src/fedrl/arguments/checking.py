"""Decorators that check arguments against a signature, and checks of ranges.

`@checked` goes on functions that build things (learners, methods, engines, federations), `@checked_class` on records of
settings; `at_least`, `above`, `at_most` and `below` check ranges.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from fedrl.arguments import messages
from fedrl.arguments.fits import FACTORIES, AnyCallable, fits

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` reject arguments that do not fit its signature.

    If it returns a function, that function records how it was built: `built.arguments` is the name and all arguments,
    defaults included, and `built.builds` the return annotation. A function that was passed in and returned unchanged
    keeps its own record.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = _fitting(call, signature, args, kwargs)
        built = function(*args, **kwargs)
        given.apply_defaults()
        if inspect.isfunction(built) and not any(built is value for value in given.arguments.values()):
            remembered = (function.__name__, dict(given.arguments))
            vars(built).update(arguments=remembered, builds=signature.return_annotation)
        return built

    FACTORIES[call] = signature
    return call


def checked_only(function: Callable[P, R]) -> Callable[P, R]:
    """As `checked`, but the result does not record how it was built: it is identified by its code and its closure.

    For environments, whose builders have the same names in several modules, and for whatever was identified this way from
    the beginning.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        _fitting(call, signature, args, kwargs)
        return function(*args, **kwargs)

    FACTORIES[call] = signature
    return call


def checked_class(cls: C) -> C:
    """Make `cls`, a dataclass or a `NamedTuple`, reject arguments that do not fit its fields."""
    return _checked_init(_fitting, cls)


def checked_names(cls: C) -> C:
    """Make `cls` reject unknown and missing arguments; it checks their values itself."""
    return _checked_init(_bound, cls)


def _checked_init(check: Callable[..., inspect.BoundArguments], cls: C) -> C:
    signature = inspect.signature(cls)
    maker = "__new__" if issubclass(cls, tuple) else "__init__"
    original = getattr(cls, maker)

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> Any:
        check(cls, signature, args, kwargs)
        return original(self, *args, **kwargs)

    setattr(cls, maker, init)
    FACTORIES[cls] = signature
    return cls


def at_least(low: float, hint: str = "", /, **values: float) -> None:
    """Reject values below `low`, infinities and NaN: `at_least(1, horizon=horizon)`."""
    for name, value in values.items():
        if not low <= value < math.inf:
            raise ValueError(messages.out_of_range(name, value, f"at least {low:g}", hint))


def above(low: float, hint: str = "", /, **values: float) -> None:
    """Reject values that are not larger than `low`, infinities and NaN: `above(0, eta=eta)`."""
    for name, value in values.items():
        if not low < value < math.inf:
            raise ValueError(messages.out_of_range(name, value, f"larger than {low:g}", hint))


def at_most(high: float, hint: str = "", /, **values: float) -> None:
    """Reject values above `high`, infinities and NaN: `at_most(1, share=share)`."""
    for name, value in values.items():
        if not -math.inf < value <= high:
            raise ValueError(messages.out_of_range(name, value, f"at most {high:g}", hint))


def below(high: float, hint: str = "", /, **values: float) -> None:
    """Reject values that are not smaller than `high`, infinities and NaN: `below(1, momentum=momentum)`."""
    for name, value in values.items():
        if not -math.inf < value < high:
            raise ValueError(messages.out_of_range(name, value, f"smaller than {high:g}", hint))


def _fitting(
    call: AnyCallable, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    given = _bound(call, signature, args, kwargs)
    for name, value in given.arguments.items():
        _check(call, signature, name, value, given.arguments)
    return given


def _bound(
    call: AnyCallable, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    for name in kwargs:
        if name not in signature.parameters:
            raise TypeError(messages.unknown(call, name))
    by_position = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    rest = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    if len(args) > len(by_position) and not rest:
        raise TypeError(messages.too_many(call, args))
    taken = {p.name for p in by_position[: len(args)]}
    if twice := taken & set(kwargs):
        raise TypeError(f"{call.__name__}() got {twice.pop()} twice, by position and by name; give it once")
    missing = [n for n in messages.required(call) if n not in taken and n not in kwargs]
    if missing:
        raise TypeError(messages.missing(call, missing))
    return signature.bind(*args, **kwargs)


def _check(call: AnyCallable, signature: inspect.Signature, name: str, value: Any, given: Mapping[str, Any]) -> None:
    parameter = signature.parameters[name]
    values = value if parameter.kind is parameter.VAR_POSITIONAL else (value,)
    wrong = [one for one in values if not fits(parameter.annotation, one)]
    if not wrong:
        return
    for other, theirs in given.items():
        wanted = signature.parameters[other].annotation
        if fits(parameter.annotation, theirs) and fits(wanted, value) and not fits(wanted, theirs):
            raise TypeError(messages.swapped(call, name, other))
    raise TypeError(messages.misfit(call, name, parameter.annotation, wrong[0]))
