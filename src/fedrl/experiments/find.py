"""Recipes by name. Only this module of `fedrl.experiments` knows `fedrl.recipes`, and imports it on demand."""

import difflib
import importlib
from typing import Any

from fedrl.experiments.recipe import Recipe, RecipeError

HOME = "fedrl.recipes"


def names() -> list[str]:
    """All recipes, e.g. "quickstart", "labbi2025/fig1a", "wang2024/fig1-cartpole"."""
    return sorted(_table(), key=lambda name: ("/" in name, name))


def recipe(name: str) -> Recipe[Any]:
    """The recipe of this name; no module but its own is imported."""
    if name not in _table():
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "`fedrl recipes` lists them"
        raise RecipeError(f"there is no recipe {name!r}; {hint}")
    module, _, item = _table()[name].partition(":")
    found: Recipe[Any] = getattr(importlib.import_module(f"{HOME}.{module}"), item)
    return found


def _table() -> dict[str, str]:
    table: dict[str, str] = importlib.import_module(HOME).RECIPES
    return table
