"""What `plot` and `compare` read from a run's folder, whether of `fedrl run` or of `fedrl.train(..., out=folder)`."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedrl.experiments import experiment, orders, outcomes
from fedrl.records import environment_name, log
from fedrl.records.environment_name import EnvironmentName
from fedrl.records.log import Row
from fedrl.records.run_toml import RunFolderError, is_trained, read_config


def logs(path: Path) -> dict[str, list[Row]]:
    """The log of every arm that has been evaluated at least once, also of an unfinished run."""
    if _of_recipe(path):
        places = {arm: outcomes.arm_folder(path, arm) / "log.jsonl" for arm in experiment.check(orders.from_toml(path))}
    else:
        places = {"": _single(path) / "log.jsonl"}
    every_log = {arm: log.read(place) for arm, place in places.items() if place.exists()}
    evaluated = {arm: rows for arm, rows in every_log.items() if any("return" in row for row in rows)}
    if not evaluated:
        raise RunFolderError(f"{path} has logged no return yet; wait for its first rounds or pass another run")
    return evaluated


def finals(path: Path) -> dict[str, np.ndarray]:
    """Final return of every seed of every arm [seeds]; the run must be finished."""
    if _of_recipe(path):
        return {arm: outcome.final() for arm, outcome in outcomes.of_run(orders.from_toml(path), path).items()}
    return {"": outcomes.of_arm(_single(path)).final()}


def environment(path: Path, arm: str) -> EnvironmentName:
    """The environment of an arm."""
    return environment_name.of_folder(outcomes.arm_folder(path, arm) if arm else _single(path))


def names(paths: list[Path]) -> list[str]:
    """A short name for each run: its folder's, or the whole path where two folders have the same."""
    short = [path.resolve().name for path in paths]
    return [name if short.count(name) == 1 else str(path) for name, path in zip(short, paths, strict=True)]


def labels(name: str, arms: Iterable[str]) -> dict[str, str]:
    """The name of each arm beside the arms of other runs."""
    return {arm: f"{name}: {arm}" if arm else name for arm in arms}


def _of_recipe(path: Path) -> bool:
    return (path / "run.toml").exists() and not is_trained(read_config(path))


def _single(path: Path) -> Path:
    if not (path / "log.jsonl").exists():
        raise RunFolderError(
            f"{path} is not the folder of a run (no run.toml, no log.jsonl); pass e.g. runs/quickstart"
        )
    return path
