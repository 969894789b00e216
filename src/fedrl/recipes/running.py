"""Run a recipe in a folder: every arm in turn, then its verdict and its figures. Resumable at any instant."""

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedrl.engines.engine import Engine
from fedrl.environments.errors import Diverged
from fedrl.faults import STOP, Faults
from fedrl.plots import curves
from fedrl.recipes import recipe as recipes
from fedrl.recipes.recipe import Arm, Claim, Outcome
from fedrl.records import folder as folders
from fedrl.records import log
from fedrl.records.measure import usual
from fedrl.records.rows import Row, lost
from fedrl.records.tensors import save_tree, write_atomically
from fedrl.training import train

Watch = Callable[[str, Row, int], None]  # (arm, newest row, rounds of this arm)
MOST_SEED = 2**32  # keys are made from 32 bits


class Order(NamedTuple):
    """A recipe with everything decided: what `run.toml` holds."""

    recipe: str
    seed: int
    seeds: int
    config: Any

    def plain(self) -> dict[str, Any]:
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self.config).items()}
        return {"recipe": self.recipe, "seed": self.seed, "seeds": self.seeds, "config": values}


def order(
    name: str, *, paper: bool = False, overrides: dict[str, Any] | None = None, seed: int = 0, seeds: int | None = None
) -> Order:
    module = recipes.load(name)
    config = recipes.configure(module, paper=paper, overrides=overrides or {})
    wanted = seeds if seeds is not None else (getattr(module, "PAPER_SEEDS", module.SEEDS) if paper else module.SEEDS)
    if wanted < 1:
        raise recipes.RecipeError(f"seeds wants a whole number of at least 1, got {wanted}; try --seeds {module.SEEDS}")
    if not 0 <= seed <= MOST_SEED - wanted:
        raise recipes.RecipeError(f"seed wants a whole number from 0 to {MOST_SEED - wanted}, got {seed}; try --seed 0")
    return Order(name, seed, wanted, config)


def from_toml(path: str | Path) -> Order:
    """The order in a `run.toml`; keys it does not know are errors."""
    content = folders.read_config(path)
    if folders.is_trained(content):
        raise recipes.RecipeError(
            f"{path} was written by fedrl.train, and only the script that called it can repeat that; here `fedrl plot` and "
            "`fedrl compare` take its folder"
        )
    if unknown := set(content) - {"recipe", "seed", "seeds", "config"}:
        raise recipes.RecipeError(f"{path} has a key {min(unknown)!r}; a run.toml has recipe, seed, seeds and [config]")
    if "recipe" not in content:
        raise recipes.RecipeError(f'{path} names no recipe; begin it with recipe = "quickstart"')
    kinds = {"recipe": (str, "text"), "seed": (int, "a whole number"), "seeds": (int, "a whole number")}
    for key, (kind, wanted) in (kinds | {"config": (dict, "a table")}).items():
        if key in content and type(content[key]) is not kind:
            raise recipes.RecipeError(f"{key} in {path} wants {wanted}, got {content[key]!r}; correct that line")
    return order(
        content["recipe"],
        overrides=content.get("config", {}),
        seed=content.get("seed", 0),
        seeds=content.get("seeds"),
    )


def check(order: Order, engine: Engine | None = None, faults: Faults = STOP) -> list[str]:
    """The names of the arms, after a look for all that can be found wrong before the first round: a ValueError."""
    arms = recipes.load(order.recipe).build(order.config)
    for name, arm in arms.items():
        if arm.rounds < 1 or arm.every < 1:
            raise recipes.RecipeError(
                f"{name} wants at least 1 round, got {arm.rounds} (measured every {arm.every}); raise it"
            )
        algorithm = arm.method(arm.federation)
        look = (arm.measure or usual(arm.federation))(algorithm, arm.federation)
        (engine or arm.engine)(algorithm, arm.federation, look, arm.every, faults).close()
    return list(arms)


def run(
    order: Order,
    folder: folders.RunFolder,
    *,
    engine: Engine | None = None,
    of_arm: Callable[[str], Engine] | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None],
    faults: Faults = STOP,
) -> None:
    """All arms, then `verdict.json` and the figures. Arms already finished in the folder are only read.

    `engine`, or `of_arm(name)`, plays every arm instead of the one it names. It is no part of the order: exact engines give
    the same bytes.
    """
    module = recipes.load(order.recipe)
    for name, arm in module.build(order.config).items():
        if (arm_folder(folder.path, name) / "returns.safetensors").exists():  # written last: this arm is finished
            continue
        try:
            train(
                arm.method,
                arm.federation,
                rounds=arm.rounds,
                seed=order.seed,
                seeds=order.seeds,
                out=arm_folder(folder.path, name),
                engine=of_arm(name) if of_arm else engine or arm.engine,
                measure=arm.measure,
                every=arm.every,
                keep=arm.keep,
                watch=partial(watch, name) if watch else None,
                warn=warn,
                faults=faults,
            )
        except Diverged as error:
            warn(f"{name} diverged ({error}); claims about it stay undecided")
            _give_up(arm_folder(folder.path, name), arm, order.seeds)
    conclude(order, folder.path)
    folder.mark_finished()


def _give_up(place: Path, arm: Arm, seeds: int) -> None:
    """Finish an arm that diverged: a last row and final returns that are not numbers."""
    rows = log.read(place / "log.jsonl")
    writer = log.LogWriter(place / "log.jsonl", (place / "log.jsonl").stat().st_size)
    width = next((len(row["returns"]) for row in rows if "returns" in row), arm.federation.count)
    with writer:
        writer.write(rows[-1] | {"round": arm.rounds, "diverged": True} | lost(rows, seeds, width))
    save_tree(place / "returns.safetensors", {"returns": np.full((seeds, width), np.nan)})


def conclude(order: Order, path: Path) -> list[Claim]:
    """Decide the claims and draw the figures from what the folder holds."""
    found = verify(order, path)
    draw(order, path)
    return found


def verify(order: Order, path: Path) -> list[Claim]:
    """Decide the claims and write them to `verdict.json`."""
    found = claims(order, path)
    rows = [log.plain("verdict", claim._asdict()) for claim in found]
    write_atomically(path / "verdict.json", (json.dumps(rows, indent=2, allow_nan=False) + "\n").encode())
    return found


def claims(order: Order, path: Path) -> list[Claim]:
    return recipes.load(order.recipe).claims(order.config, outcomes(order, path))


def draw(order: Order, path: Path) -> list[Path]:
    module = recipes.load(order.recipe)
    found = outcomes(order, path)
    if hasattr(module, "draw"):
        return module.draw(order.config, found, path / "figures")
    log_rows = {name: outcome.rows for name, outcome in found.items()}
    return [curves.draw(log_rows, path / "figures" / "return.png", title=f"{order.recipe}: {module.SHOWS}")]


def outcomes(order: Order, path: Path) -> dict[str, Outcome]:
    """What every arm has come to, from the files in the folder."""
    found = {}
    for name in recipes.load(order.recipe).build(order.config):
        place = arm_folder(path, name)
        if not (place / "returns.safetensors").exists():
            raise folders.RunFolderError(
                f"{path} has no finished arm {name!r} yet; `fedrl run --resume --out {path}` goes on"
            )
        found[name] = outcome(place)
    return found


def outcome(place: Path) -> Outcome:
    """What became of the finished arm in the folder `place`."""
    try:
        returns = np.asarray(next(iter(load_file(place / "returns.safetensors").values())))
        rows = log.read(place / "log.jsonl")
    except (OSError, SafetensorError, StopIteration) as error:
        raise folders.RunFolderError(
            f"{place} is not a whole finished run ({error}); repeat it or use another copy"
        ) from None
    if not rows:
        raise folders.RunFolderError(f"{place / 'log.jsonl'} is empty; repeat the run or use another copy")
    return Outcome(rows, returns, place)


def arm_folder(path: Path, name: str) -> Path:
    return path / "arms" / "".join(c if c.isalnum() or c in "-_.=" else "_" for c in name)
