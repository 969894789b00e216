"""The results of a run's arms, read from its folder."""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedrl.experiments import find
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import Outcome
from fedrl.records import log
from fedrl.records.run_toml import RunFolderError


def of_run(order: Order, path: Path) -> dict[str, Outcome]:
    """The outcome of every arm; all must be finished."""
    return {name: of_arm(finished(path, name)) for name in find.recipe(order.recipe).build(order.config)}


def of_arm(place: Path) -> Outcome:
    """The outcome of the finished arm in the folder `place`."""
    try:
        returns = np.asarray(next(iter(load_file(place / "returns.safetensors").values())))
        rows = log.read(place / "log.jsonl")
    except (OSError, SafetensorError, StopIteration) as error:
        raise RunFolderError(f"{place} is not a whole finished run ({error}); repeat it or use another copy") from None
    if not rows:
        raise RunFolderError(f"{place / 'log.jsonl'} is empty; repeat the run or use another copy")
    return Outcome(rows, returns, place)


def finished(path: Path, name: str) -> Path:
    """The folder of the arm `name` of the run in `path`; raises if that arm is not finished."""
    place = arm_folder(path, name)
    if not is_finished(place):
        raise RunFolderError(f"{path} has no finished arm {name!r} yet; `fedrl run --resume --out {path}` continues it")
    return place


def is_finished(place: Path) -> bool:
    return (place / "returns.safetensors").exists()  # written last


def arm_folder(path: Path, name: str) -> Path:
    return path / "arms" / "".join(c if c.isalnum() or c in "-_.=" else "_" for c in name)
