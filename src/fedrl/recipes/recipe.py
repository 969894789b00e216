"""What a recipe is: a module with a `Config` of plain numbers, `build(config)`, `claims(config, runs)` and what it shows.

    PAPER = "Labbi et al. 2025, Fig. 1a"      SHOWS = "one line for `fedrl recipes`"      MINUTES = 1.0 (default size)
    @dataclass(frozen=True) class Config: ...  a sentence per field
    PAPER_SIZE = {"rounds": 2000, ...}         what --paper changes
    build(config) -> {arm name: Arm}           what is trained, each under its own name
    claims(config, arms) -> [Claim]            what the paper says the result shows, decided by numbers
    draw(config, arms, folder) -> [Path]       optional: figures; by default the learning curves of all arms

The command line turns a name into such a module, and nothing else does.
"""

import dataclasses
import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from fedrl import recipes
from fedrl.algorithms.fedavg import Method
from fedrl.engines.engine import Engine
from fedrl.federation import Federation
from fedrl.records import log
from fedrl.records.measure import Measure
from fedrl.records.rows import Row
from fedrl.training import Keep


class Arm(NamedTuple):
    """One curve of a recipe: what `train` is given."""

    method: Method
    federation: Federation
    rounds: int
    engine: Engine
    measure: Measure | None = None
    every: int = 1
    keep: Keep | None = None


class Outcome(NamedTuple):
    """What became of one arm: its log, its final returns [seeds, clients], and its folder for what else it kept."""

    rows: list[Row]
    returns: np.ndarray
    folder: Path = Path()

    def final(self) -> np.ndarray:
        """Final return of each seed, averaged over clients."""
        return self.returns.mean(axis=1)

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Measured rounds [n] and returns [n, seeds]."""
        return log.columns(self.rows, "return_by_seed")


class Claim(NamedTuple):
    text: str
    verdict: str  # "holds", "does not hold", "undecided"
    numbers: dict[str, Any]


Claims = Callable[[Any, dict[str, Outcome]], list[Claim]]


class RecipeError(ValueError):
    """The name or a setting is not known or not of the right kind; the message is one sentence for the user."""


def names() -> list[str]:
    """All recipes, e.g. "quickstart", "labbi2025/fig1a", "wang2024/fig1-cartpole"."""

    def walk(package: ModuleType, prefix: str) -> Iterator[str]:
        for item in pkgutil.iter_modules(package.__path__):
            if item.ispkg:
                yield from walk(importlib.import_module(f"{package.__name__}.{item.name}"), f"{prefix}{item.name}/")
            elif not item.name.startswith("_") and _source_has_config(package, item.name):
                yield f"{prefix}{item.name.replace('_', '-')}"

    return sorted(walk(recipes, ""), key=lambda name: ("/" in name, name))


def _source_has_config(package: ModuleType, name: str) -> bool:
    return hasattr(importlib.import_module(f"{package.__name__}.{name}"), "Config")


def load(name: str) -> ModuleType:
    """The module of a recipe; its name has hyphens where the module has underscores."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "`fedrl recipes` lists them"
        raise RecipeError(f"there is no recipe {name!r}; {hint}")
    return importlib.import_module(f"{recipes.__name__}.{name.replace('/', '.').replace('-', '_')}")


def configure(recipe: ModuleType, *, paper: bool, overrides: dict[str, Any]) -> Any:
    """The recipe's `Config`: its defaults, then the paper's size if asked for, then the overrides (text or values)."""
    fields = {field.name: field for field in dataclasses.fields(recipe.Config)}
    config = recipe.Config(**(recipe.PAPER_SIZE if paper else {}))
    for key, value in overrides.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(fields)}"
            raise RecipeError(f"{recipe.__name__.removeprefix('fedrl.recipes.')} has no setting {key!r}; {hint}")
        config = dataclasses.replace(config, **{key: _convert(key, value, getattr(config, key))})
    return config


def _convert(key: str, value: Any, like: Any) -> Any:
    """`value` as the kind of thing that `like` is."""
    try:
        if isinstance(like, tuple):
            items = value.split(",") if isinstance(value, str) else list(value)
            return tuple(_convert(key, item, like[0]) for item in items)
        if isinstance(like, bool):
            return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
        if isinstance(like, int):
            if isinstance(value, bool) or float(value) != int(float(value)):
                raise ValueError
            return int(float(value))
        return type(like)(value)
    except (ValueError, KeyError, TypeError, OverflowError):
        kind = {bool: "true or false", int: "a whole number", float: "a number", tuple: "a list like 1,2,3"}
        wanted = kind.get(type(like), "text")
        raise RecipeError(
            f"setting {key} wants {wanted} (now {like!r}), got {value!r}; try --set {key}={_example(like)}"
        ) from None


def _example(like: Any) -> str:
    return (
        ",".join(map(str, like))
        if isinstance(like, tuple)
        else str(like).lower()
        if isinstance(like, bool)
        else str(like)
    )
