"""A run with all settings decided, by the command line or by an earlier run's `run.toml`."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.experiments import find
from fedrl.experiments.recipe import RecipeError
from fedrl.experiments.settings import configure
from fedrl.records import run_toml

MOST_SEED = 2**32  # keys are made from 32 bits


class Order(NamedTuple):
    """A recipe with all settings decided: the content of `run.toml`."""

    recipe: str
    seed: int
    seeds: int
    config: Any

    def plain(self) -> dict[str, Any]:
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self.config).items()}
        return {"recipe": self.recipe, "seed": self.seed, "seeds": self.seeds, "config": values}


def order(
    name: str,
    *,
    paper: bool = False,
    overrides: Mapping[str, Any] | None = None,
    seed: int = 0,
    seeds: int | None = None,
) -> Order:
    recipe = find.recipe(name)
    config = configure(recipe, paper=paper, overrides=overrides or {}, name=name)
    default = recipe.paper_seeds if paper and recipe.paper_seeds is not None else recipe.seeds
    count = default if seeds is None else seeds
    if count < 1:
        raise RecipeError(f"seeds expects a whole number of at least 1, got {count}; try --seeds {recipe.seeds}")
    if not 0 <= seed <= MOST_SEED - count:
        raise RecipeError(f"seed expects a whole number from 0 to {MOST_SEED - count}, got {seed}; try --seed 0")
    return Order(name, seed, count, config)


def from_toml(path: str | Path) -> Order:
    """The order in a `run.toml`; unknown keys are errors."""
    content = run_toml.read_config(path)
    if run_toml.is_trained(content):
        raise RecipeError(
            f"{path} was written by fedrl.train, and only the script that called it can repeat that; here `fedrl plot` and "
            "`fedrl compare` take its folder"
        )
    if unknown := set(content) - {"recipe", "seed", "seeds", "config"}:
        raise RecipeError(f"{path} has a key {min(unknown)!r}; a run.toml has recipe, seed, seeds and [config]")
    if "recipe" not in content:
        raise RecipeError(f'{path} names no recipe; begin it with recipe = "quickstart"')
    kinds = {"recipe": (str, "text"), "seed": (int, "a whole number"), "seeds": (int, "a whole number")}
    for key, (kind, wanted) in (kinds | {"config": (dict, "a table")}).items():
        if key in content and type(content[key]) is not kind:
            raise RecipeError(f"{key} in {path} expects {wanted}, got {content[key]!r}; correct that line")
    return order(
        content["recipe"],
        overrides=content.get("config", {}),
        seed=content.get("seed", 0),
        seeds=content.get("seeds"),
    )
