"""A finished run read from its folder, or the sentence that says why it cannot be."""

import warnings
from pathlib import Path

from safetensors import SafetensorError

from fedrl import trained
from fedrl.finished_run import Run
from fedrl.policies import saved
from fedrl.records import experiment_file, log, returns_file
from fedrl.records.folder import RunFolder
from fedrl.records.journal import BEST, POLICY
from fedrl.records.log import Row
from fedrl.records.run_toml import RunFolderError, is_of_organisations, run_of_arm
from fedrl.trained import Experiment, Trained

FINISH = "to finish it, call fedrl.train again with the same arguments and this out"


def load(folder: str | Path, *, trust: bool = False) -> Run:
    """The finished run in `folder`; `fedrl.load` is `experiments.restore.load`, which knows recipes too.

    `trust` says whether `restore` may open an `experiment.pkl` that somebody else wrote. All else reads data alone.

    If a finished run was continued with more rounds and interrupted, returns the finished one, with a warning.
    """
    place = _arm(Path(folder))
    policy = saved.read(place / POLICY)
    rounds = policy.header.get("rounds")  # files of earlier versions do not say
    try:
        returns, evaluated = returns_file.read(place)
        rows = log.read(place / "log.jsonl")
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{place} is not a whole finished run ({error}); repeat it or use another copy") from None
    if not rows:
        raise RunFolderError(f"{place / 'log.jsonl'} is empty; repeat the run or use another copy")
    if evaluated not in (None, rounds):
        raise RunFolderError(
            f"{place} holds the policy of round {rounds} and the returns of round {evaluated}: it was interrupted; {FINISH}"
        )
    best = saved.read(place / BEST) if (place / BEST).exists() else None
    rows = _up_to(rounds, rows, place)
    return Run(rows, policy.tensors, returns, place, policy, best, lambda: _restore(place, rounds, trust))


def _restore(place: Path, rounds: int | None, trust: bool) -> Trained:
    it: Experiment = experiment_file.read(place, trust=trust)
    if rounds is None:
        raise RunFolderError(f"{place} was written by an earlier version and does not say its rounds; repeat the run")
    return trained.restore(
        it.method, it.federation, it.engine, it.evaluation, place=place, seeds=len(it.seeds), rounds=rounds
    )


def _up_to(rounds: int | None, rows: list[Row], place: Path) -> list[Row]:
    """The rows up to the round of the policy."""
    last = rows[-1]["round"]
    if rounds is None or last == rounds:
        return rows
    history = (
        f"the run continued to round {last}" if last > rounds else f"the log ends at round {last}, as the run went back"
    )
    warnings.warn(
        f"{place} holds the policy of round {rounds}; {history} and was interrupted, so its rows from round {rounds + 1} on "
        f"are left out; {FINISH}",
        stacklevel=4,
    )
    return [row for row in rows if row["round"] <= rounds]


def _arm(folder: Path) -> Path:
    if (folder / POLICY).exists():
        return folder
    arms = sorted(place for place in folder.glob("arms/*") if place.is_dir())
    finished = [arm for arm in arms if (arm / POLICY).exists()]
    names = ", ".join(str(arm) for arm in finished)
    if arms and not RunFolder(folder).finished:
        also = f", or load a finished arm: {names}" if finished else ""
        raise RunFolderError(
            f"{folder} holds an unfinished run of a recipe; continue with `fedrl run --resume --out {folder}`{also}"
        )
    if len(arms) == len(finished) == 1:
        return finished[0]
    if finished:
        raise RunFolderError(f"{folder} holds {len(arms)} arms; load one of them: {names}")
    raise RunFolderError(_unfinished(folder))


def _unfinished(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}; pass that of a finished run"
    if not (folder / "log.jsonl").exists():
        return f"{folder} has no policy.safetensors; a run writes it when it is finished"
    rows = log.read(folder / "log.jsonl")
    done = rows[-1]["round"] if rows else 0
    if rows and rows[-1].get("diverged"):
        return (
            f"{folder} holds a run that diverged after round {rows[-2]['round']}, so it has no policy; use another arm"
        )
    if home := run_of_arm(folder):
        return f"{folder} is an unfinished arm, {done} rounds so far; continue with `fedrl run --resume --out {home}`"
    if is_of_organisations(folder):
        return (
            f"{folder} holds an unfinished run of a federation, {done} rounds so far, and no policy.safetensors yet; "
            f"continue with `fedrl federation serve {folder.parent}`; sites have the newest policy in their folders"
        )
    if not (folder / experiment_file.NAME).exists():
        return f"{folder} holds an unfinished run, {done} rounds so far, and no policy.safetensors yet; {FINISH}"
    asked = experiment_file.parts_of(folder).about["rounds"]
    return (
        f"{folder} holds an unfinished run, {done} of {asked} rounds, and no policy.safetensors yet; continue with "
        f"`fedrl run --resume --out {folder}`"
    )
