"""From a table of federation.toml to what it names: a function of fedrl's, or module:object, with its settings.

[learner]                     ->  fedrl.learners.ppo(steps=512, policy=mlp(64, 64))
name = "ppo"
steps = 512
"""

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import optax

from fedrl import aggregation, algorithms, learners, policies, selection
from fedrl.arguments.fits import is_factory
from fedrl.organisations.tables import FileError, Table

PLACES: dict[str, Any] = {  # the table or setting -> where its `name` is looked up
    "method": algorithms,
    "learner": learners,
    "policy": policies,
    "selection": selection,
    "combine": aggregation,
    "project": aggregation,
    "server": optax,
}
NESTED = ["direction", "trust", "optimizer", "learning_rate", "entropy", "decay", "steps_of"]  # parts of learners
PLACES |= dict.fromkeys(NESTED, learners)
FILE = "federation.toml"


def parameters(place: str, table: Table) -> list[str]:
    return list(inspect.signature(_function(place, table)).parameters)


def built(place: str, table: Any) -> Any:
    """What a table with a `name` describes; other values are as TOML has them, lists as tuples."""
    if not isinstance(table, dict) or place not in PLACES:
        return tuple(table) if isinstance(table, list) else table
    function = _function(place, table)
    settings = {name: built(name, value) for name, value in table.items() if name != "name"}
    if ":" in str(table["name"]) and not settings:
        return function
    if place == "combine" and not settings and not is_factory(function):
        return function
    several = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_POSITIONAL]
    positional = settings.pop(several[0], settings.pop("sizes", ())) if several else ()
    try:
        return function(*positional, **settings)
    except (TypeError, ValueError) as error:
        raise FileError(f"{FILE} [{place}]: {error}") from error


def _function(place: str, table: Table) -> Callable[..., Any]:
    name = table.get("name")
    if not isinstance(name, str):
        raise FileError(f'{FILE} [{place}] has no name; say which one, such as name = "{_names(place)[0]}"')
    module, colon, item = name.partition(":")
    if colon:
        return _imported(place, module, item)
    if name in _names(place):
        function: Callable[..., Any] = getattr(PLACES[place], name)
        return function
    near = difflib.get_close_matches(name, _names(place), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_names(place)[:12])}, or module:object"
    raise FileError(f"{FILE} [{place}]: there is no {place} {name!r}; {hint}")


def _imported(place: str, module: str, item: str) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), item)
    except (ImportError, AttributeError) as error:
        raise FileError(
            f"{FILE} [{place}]: {module}:{item} cannot be imported here ({error}); install its package on every machine"
        ) from error
    return found


def _names(place: str) -> list[str]:
    return [name for name in PLACES[place].__all__ if name[:1].islower()]
