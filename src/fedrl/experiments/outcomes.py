"""The results of a run's arms, read from its folder."""

from pathlib import Path

from safetensors import SafetensorError

from fedrl.experiments import find
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import Arm, Outcome
from fedrl.records import log, returns_file
from fedrl.records.run_toml import RunFolderError


def of_run(order: Order, path: Path) -> dict[str, Outcome]:
    """The outcome of every arm; all must be finished."""
    return {name: of_arm(finished(path, name)) for name in find.recipe(order.recipe).build(order.config)}


def of_arm(place: Path) -> Outcome:
    """The outcome of the finished arm in the folder `place`."""
    try:
        returns, _ = returns_file.read(place)
        rows = log.read(place / "log.jsonl")
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{place} is not a whole finished run ({error}); repeat it or use another copy") from None
    if not rows:
        raise RunFolderError(f"{place / 'log.jsonl'} is empty; repeat the run or use another copy")
    return Outcome(rows, returns, place)


def carried_on(outcome: Outcome, arm: Arm) -> Outcome:
    """As if an arm that ended early had stayed as it was: its last evaluation in the place of those it did not reach.

    So claims may compare arms round by round. Nothing was trained there, so there is no `train/…` in these rows.
    """
    last = {name: value for name, value in outcome.rows[-1].items() if not name.startswith("train/")}
    after = range(last["round"] + 1, arm.rounds + 1)
    rows = [last | {"round": round} for round in after if round % arm.eval_every == 0 or round == arm.rounds]
    return outcome._replace(rows=[*outcome.rows, *rows])


def finished(path: Path, name: str) -> Path:
    """The folder of the arm `name` of the run in `path`; raises if that arm is not finished."""
    place = arm_folder(path, name)
    if not is_finished(place):
        raise RunFolderError(f"{path} has no finished arm {name!r} yet; `fedrl run --resume --out {path}` continues it")
    return place


def is_finished(place: Path) -> bool:
    return (place / returns_file.NAME).exists()  # written last


def arm_folder(path: Path, name: str) -> Path:
    return path / "arms" / "".join(c if c.isalnum() or c in "-_.=" else "_" for c in name)
