"""A run with all settings decided, by the command line or by an earlier run's `run.toml`."""

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.experiments import find
from fedrl.experiments.ending import Ending
from fedrl.experiments.recipe import RecipeError
from fedrl.experiments.settings import configure
from fedrl.records import run_toml
from fedrl.records.description import describe
from fedrl.records.identity import CODE

MOST_SEED = 2**32  # keys are made from 32 bits
WHOLE = ((int,), "a whole number")
KINDS: dict[str, tuple[tuple[type, ...], str]] = {  # what may stand in a run.toml
    "recipe": ((str,), "text"),
    "seed": WHOLE,
    "seeds": WHOLE,
    "config": ((dict,), "a table"),
    "stop_at": ((float, int), "a number"),
    "patience": WHOLE,
    "keep_best": ((bool,), "true or false"),
}


class Order(NamedTuple):
    """A recipe with all settings decided: the content of `run.toml`."""

    recipe: str  # a name, `module:object`, or the absolute path of a file, with :NAME if it defines several
    seed: int
    seeds: int
    config: Any
    ending: Ending = Ending()  # on top of what its arms have of their own

    def plain(self) -> dict[str, Any]:
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self.config).items()}
        facts = {"recipe": self.recipe, "seed": self.seed, "seeds": self.seeds} | self.ending.plain()
        return facts | {"config": values} | self._code()

    def _code(self) -> dict[str, Any]:
        """fedrl's recipes are identified by its version, a user's by the code of `build` and of all it uses."""
        return (
            {} if self.recipe in find.table() else {"build": describe(inspect.unwrap(find.recipe(self.recipe).build))}
        )

    @property
    def name(self) -> str:
        """What titles and folders call the recipe."""
        return find.short(self.recipe)


def order(
    name: str,
    *,
    paper: bool = False,
    overrides: Mapping[str, Any] | None = None,
    seed: int = 0,
    seeds: int | None = None,
    ending: Ending = Ending(),
) -> Order:
    recipe, reference = find.recipe(name), find.canonical(name)
    config = configure(recipe, paper=paper, overrides=overrides or {}, name=find.short(reference))
    default = recipe.paper_seeds if paper and recipe.paper_seeds is not None else recipe.seeds
    count = default if seeds is None else seeds
    if count < 1:
        raise RecipeError(f"seeds expects a whole number of at least 1, got {count}; try --seeds {recipe.seeds}")
    if not 0 <= seed <= MOST_SEED - count:
        raise RecipeError(f"seed expects a whole number from 0 to {MOST_SEED - count}, got {seed}; try --seed 0")
    return Order(reference, seed, count, config, ending.checked())


def from_plain(content: Mapping[str, Any], folder: str | Path = ".") -> Order:
    """The order that `Order.plain` describes. The path of a recipe's file is relative to `folder`."""
    return order(
        find.canonical(content["recipe"], folder),
        overrides=content.get("config", {}),
        seed=content.get("seed", 0),
        seeds=content.get("seeds"),
        ending=Ending(**{key: content[key] for key in Ending._fields if key in content}),
    )


def from_toml(path: str | Path) -> Order:
    """The order in a `run.toml`; unknown keys are errors. The path of a recipe's file is relative to that of `run.toml`.

    Not in the folder of a run, which always has the absolute path: whoever sent the folder could have put code into it.
    """
    content = run_toml.read_config(path)
    if run_toml.is_of_organisations(run_toml.folder_of(Path(path))):
        raise RecipeError(
            f"{path} is the run of a federation between organisations, and its environments are at the sites; only `fedrl "
            "federation serve` continues it"
        )
    if run_toml.is_trained(content):
        raise RecipeError(
            f"{path} was written by fedrl.train, and only the script that called it can repeat that; `fedrl run --resume "
            "--out` with its folder continues it"
        )
    if unknown := content.keys() - KINDS.keys() - {"build"}:
        raise RecipeError(f"{path} has a key {min(unknown)!r}; a run.toml has recipe, seed, seeds and [config]")
    if "recipe" not in content:
        raise RecipeError(f'{path} names no recipe; begin it with recipe = "quickstart"')
    for key, (kinds, wanted) in KINDS.items():
        if key in content and type(content[key]) not in kinds:
            raise RecipeError(f"{key} in {path} expects {wanted}, got {content[key]!r}; correct that line")
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    named, file = find.file_of(content["recipe"]), find.file_of(find.canonical(content["recipe"], folder))
    if named and not named.expanduser().is_absolute() and (folder / "arms").is_dir():
        raise RecipeError(
            f"{path} names the recipe {named} inside the run's own folder, whose code would be run; if you trust it, write "
            "its absolute path there"
        )
    if file and not file.is_file():
        raise RecipeError(
            f"{path} is a run of the recipe in {file}, which is not there; put it back, or correct `recipe` in the run.toml"
        )
    return from_plain(content, folder)


def code_note(path: str | Path, order: Order) -> str | None:
    """The warning if the user's recipe has changed since the `run.toml` in `path` was written."""
    changed = [phrase for phrase in run_toml.what_differs(Path(path), order.plain()) if _is_about_code(phrase)]
    return f"the recipe has changed since {path} was written ({changed[0]}); numbers may differ" if changed else None


def _is_about_code(phrase: str) -> bool:
    return phrase.removeprefix(f"{CODE} ").startswith("build")
