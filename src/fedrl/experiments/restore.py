"""A finished run restored from its folder, of a recipe or of `fedrl.train`. Nothing is trained or compiled."""

import difflib
import warnings
from pathlib import Path
from typing import NamedTuple

from fedrl import loading, trained
from fedrl.experiments import find, orders, outcomes
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import Arm, RecipeError
from fedrl.finished_run import Run
from fedrl.records import run_toml
from fedrl.records.run_toml import RunFolderError
from fedrl.trained import Trained


class RestoredRun(NamedTuple):
    name: str  # of the recipe, or the folder's
    path: Path
    seed: int  # the first
    arms: dict[str, Trained]
    note: str | None = None  # a warning for the user


def load(folder: str | Path, *, trust: bool = False) -> Run:
    """The finished run in `folder`: that of `fedrl.train(out=…)`, of a recipe with one arm, or of one arm of several.

    To load, and to use the policy, reads data alone. `evaluate` and `play` need the federation, so they run code: of a
    recipe, that which its `run.toml` names, on this machine; of `fedrl.train`, that in `experiment.pkl`, and this only if
    you wrote it on this machine, or with `trust=True`.

    If a finished run was continued with more rounds and interrupted, returns the finished one, with a warning.
    """
    run = loading.load(folder, trust=trust)
    return run._replace(restore=lambda: _federation(run))


def run(
    path: Path, arm: str | None = None, *, first: bool = False, trust: bool = False, best: bool = False
) -> RestoredRun:
    """The run in `path` with the arm of this name, or all of them, or only the `first`; with the last or the best policies.

    That of `fedrl.train` has one arm, under the name of its method; `trust` as in `load`. `path` may be an arm's own folder.
    """
    folder, arm = place_of(path, arm)
    if is_of_train(folder):
        return _of_train(folder, arm, trust, best)
    order = orders.from_toml(folder)
    asked = list(arms(order, arm).items())[: 1 if first else None]
    trained_arms = {name: arm_of(order, folder, name, it, best=best) for name, it in asked}
    return RestoredRun(order.name, folder, order.seed, trained_arms, orders.code_note(folder, order))


def place_of(path: Path, arm: str | None) -> tuple[Path, str | None]:
    """The run's folder and the arm's name, if `path` is that folder, its run.toml, or the folder of one of its arms."""
    folder = run_toml.folder_of(path)
    home = run_toml.run_of_arm(folder)
    if home is None:
        return folder, arm
    name = folder.absolute().name
    if arm not in (None, name):
        raise RecipeError(f"{folder} is one arm of {home}, and --arm asks for {arm!r}; leave out one of the two")
    return home, name


def is_of_train(path: Path) -> bool:
    """Whether `path`, a run's folder or its run.toml, was written by `fedrl.train`."""
    return run_toml.is_of_first_versions(path) or run_toml.is_trained(run_toml.read_config(path))


def _of_train(folder: Path, arm: str | None, trust: bool, best: bool) -> RestoredRun:
    found = loading.load(folder, trust=trust)
    name, header = folder.resolve().name, found.saved.header
    if arm not in (None, header["method"]):
        raise RecipeError(f"{folder} has no arm {arm!r}: fedrl.train wrote it, and it has one; leave out --arm")
    return RestoredRun(name, folder, header["seeds"]["first"], {header["method"]: found.trained(best)})


def _federation(run: Run) -> Trained:
    """The federation of a run that was read: by its `experiment.pkl`, or, of an arm, by its recipe."""
    assert run.folder is not None
    if "client" in run.saved.header:
        raise RunFolderError(
            f"{run.folder} is a personal policy, which has no environments of its own; `fedrl personalise` says what it "
            "earns, and the run that it came from can be evaluated"
        )
    home = run_toml.run_of_arm(run.folder)
    if home is None:
        return run.restore()
    order = orders.from_toml(home)
    if note := orders.code_note(home, order):
        warnings.warn(note, stacklevel=5)
    return _restored(order, run, next(iter(arms(order, run.folder.absolute().name).values())))


def arms(order: Order, name: str | None = None) -> dict[str, Arm]:
    """The arm called `name`, or so in the names of folders, or all of them."""
    every_arm = find.recipe(order.recipe).build(order.config)
    if name is None:
        return every_arm
    folders = {outcomes.arm_folder(Path(), known).name: known for known in every_arm}
    name = name if name in every_arm else folders.get(name, name)
    if name not in every_arm:
        near = difflib.get_close_matches(name, every_arm, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, every_arm))}"
        raise RecipeError(f"{order.name} has no arm {name!r}; {hint}")
    return {name: every_arm[name]}


def arm_of(order: Order, path: Path, name: str, arm: Arm, *, best: bool = False) -> Trained:
    """The arm `name` of the run in the folder `path`, with its last or its best policy."""
    run = loading.load(outcomes.finished(path, name))
    return run._replace(restore=lambda: _restored(order, run, arm)).trained(best)


def _restored(order: Order, run: Run, arm: Arm) -> Trained:
    """As of the last round, which files of earlier versions do not say."""
    assert run.folder is not None
    rounds = run.saved.header.get("rounds", arm.rounds)
    return trained.restore(
        arm.method, arm.federation, arm.engine, arm.evaluation, place=run.folder, seeds=order.seeds, rounds=rounds
    )
