"""A recipe's settings from user input: `--paper`, `--set key=value`, or the `[config]` of a run.toml."""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any, get_args

from fedrl.experiments.recipe import Config, Recipe, RecipeError


def configure(
    recipe: Recipe[Config], *, paper: bool, overrides: Mapping[str, Any], name: str = "this recipe"
) -> Config:
    """The recipe's defaults, then the paper's settings if asked for, then the overrides (text or values).

    `name` is what errors call the recipe.
    """
    config = recipe.config()
    fields = {field.name: field.type for field in dataclasses.fields(config)}
    for key, value in {**(recipe.paper_settings if paper else {}), **overrides}.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(fields)}"
            raise RecipeError(f"{name} has no setting {key!r}; {hint}")
        config = dataclasses.replace(config, **{key: _convert(key, value, _like(getattr(config, key), fields[key]))})
    return config


def _like(default: Any, declared: Any) -> Any:
    """`default`, where `eta: float = 1` is a float: what is declared counts, not how the default is spelled."""
    if isinstance(default, tuple) and (kinds := get_args(declared)):
        kinds = kinds if len(kinds) == len(default) and ... not in kinds else kinds[:1] * len(default)
        return tuple(map(_like, default, kinds))
    return float(default) if declared in (float, "float") and type(default) is int else default


def _convert(key: str, value: Any, like: Any) -> Any:
    """`value` converted to the type of `like`."""
    try:
        if isinstance(like, tuple):
            items = value.split(",") if isinstance(value, str) else list(value)
            return tuple(_convert(key, item, like[min(place, len(like) - 1)]) for place, item in enumerate(items))
        if isinstance(like, bool):
            return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
        if isinstance(like, int):
            if isinstance(value, bool) or float(value) != int(float(value)):
                raise ValueError
            return int(float(value))
        if isinstance(like, float) and math.isnan(float(value)):
            raise ValueError
        return type(like)(value)
    except (ValueError, KeyError, TypeError, OverflowError):
        kind = {bool: "true or false", int: "a whole number", float: "a number", tuple: f"a list like {_example(like)}"}
        expected = kind.get(type(like), "text")
        raise RecipeError(
            f"setting {key} expects {expected} (now {like!r}), got {value!r}; try --set {key}={_example(like)}"
        ) from None


def _example(like: Any) -> str:
    if isinstance(like, tuple):
        return ",".join(map(str, like))
    return str(like).lower() if isinstance(like, bool) else str(like)
