"""Where a recipe comes from: a name of fedrl's, an entry point of an installed package, a file, or `module:object`.

Only this module of `fedrl.experiments` knows `fedrl.recipes`. Recipes are imported when they are asked for, because that
needs JAX; to list them does not.
"""

import difflib
import functools
import importlib
import os
import re
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedrl.experiments.errors import RecipeError

if TYPE_CHECKING:
    from fedrl.experiments.recipe import Recipe

HOME = "fedrl.recipes"
GROUP = "fedrl.recipes"  # of entry points
FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<item>\w+))?")


class Entry(NamedTuple):
    """What the table of `fedrl.recipes` holds of a recipe, to be listed without importing it."""

    target: str  # "module:object" below that package
    paper: str  # and which figure, table or theorem of it
    shows: str  # in one line
    minutes: float  # at the default size
    cites: str = ""  # a key of `PAPERS`; empty: the first part of the recipe's name


def names() -> list[str]:
    """All recipes of fedrl, e.g. "quickstart", "labbi2025/fig1a", "wang2024/fig1-cartpole"."""
    return sorted(table(), key=lambda name: ("/" in name, name))


def table() -> dict[str, Entry]:
    entries: dict[str, Entry] = importlib.import_module(HOME).RECIPES
    return entries


def installed() -> dict[str, EntryPoint]:
    """Recipes of other packages by name. fedrl's own names win, then the first package that has a name."""
    by_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name not in table():
            by_name.setdefault(point.name, point)
    return by_name


def hidden() -> list[EntryPoint]:
    """Recipes of other packages whose name is taken."""
    taken, late = set(table()), []
    for point in entry_points(group=GROUP):
        if point.name in taken:
            late.append(point)
        taken.add(point.name)
    return late


def canonical(reference: str, folder: str | Path = ".") -> str:
    """`reference` as `run.toml` has it: a file, relative to `folder`, by its absolute path."""
    match = FILE.fullmatch(reference)
    if match is None:
        return reference
    path = os.path.abspath(Path(folder) / Path(match["file"]).expanduser())
    return f"{path}:{match['item']}" if match["item"] else path


def file_of(reference: str) -> Path | None:
    """The recipe's file, if it is one."""
    match = FILE.fullmatch(reference)
    return Path(match["file"]) if match else None


def short(reference: str) -> str:
    """What titles and folders call it: "tank" for `/home/me/tank.py` and for `project.tank:RECIPE`."""
    module, _, item = reference.rpartition(":") if ":" in reference else (reference, "", "")
    if match := FILE.fullmatch(reference):
        module, item = Path(match["file"]).stem, match["item"] or ""
    elif not item:
        return reference
    stem = module.rpartition(".")[2]
    return stem if item in ("", "RECIPE") else f"{stem}-{item}"


def has_name(reference: str) -> bool:
    """Whether it is a name that every machine with the same packages knows, not a file or a module of this machine."""
    return reference in table() or reference in installed()


def recipe(reference: str) -> "Recipe[Any]":
    """The recipe itself; no module but its own is imported."""
    if reference not in table():
        return _foreign(canonical(reference))
    module, _, item = table()[reference].target.partition(":")
    found: Recipe[Any] = getattr(importlib.import_module(f"{HOME}.{module}"), item)
    return found


@functools.cache  # a file is read once: its classes must stay the same, even if it is edited meanwhile
def _foreign(reference: str) -> "Recipe[Any]":
    from fedrl.experiments import recipe_checks, recipe_modules

    if match := FILE.fullmatch(reference):
        module = recipe_modules.from_file(Path(match["file"]))
        return recipe_checks.checked(recipe_modules.pick(module, match["item"], match["file"]), reference)
    point = installed().get(reference)
    if point is None and ":" not in reference:
        raise _unknown(reference)
    if point and not point.pattern.match(point.value):
        raise RecipeError(
            f"{reference} is {point.value!r} in its package, expected module:object; correct its entry point"
        )
    name, item = (point.module, point.attr) if point else reference.split(":", 1)
    module = recipe_modules.from_name(name, reference)
    return recipe_checks.checked(recipe_modules.pick(module, item, name), reference)


def _unknown(name: str) -> RecipeError:
    if Path(f"{name}.py").is_file():
        return RecipeError(f"there is no recipe {name!r}; did you mean the file ./{name}.py?")
    if (Path(name) / "run.toml").is_file():
        return RecipeError(
            f"{name} is the folder of a run, expected a recipe; `fedrl run {Path(name) / 'run.toml'}` repeats it, "
            f"`fedrl run --resume --out {name}` goes on with it"
        )
    near = difflib.get_close_matches(name, [*names(), *installed()], n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else "`fedrl recipes` lists them"
    return RecipeError(f"there is no recipe {name!r}; {hint}")
