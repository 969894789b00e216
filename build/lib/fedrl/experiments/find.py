"""Recipes by name. This is the one place of `fedrl.experiments` that looks into `fedrl.recipes`, and only when asked."""

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
    return getattr(importlib.import_module(f"{HOME}.{module}"), item)


def _table() -> dict[str, str]:
    return importlib.import_module(HOME).RECIPES
