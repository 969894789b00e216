"""A finished run: returned by `fedrl.train`, or read from its folder by `fedrl.load`."""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from fedrl.policies import saved
from fedrl.policies.saved import Act, SavedPolicy
from fedrl.records import log
from fedrl.records.folder import RunFolder
from fedrl.records.log import Row
from fedrl.records.rows import of_each
from fedrl.records.run_toml import RunFolderError
from fedrl.trees import Tree

FINISH = "to finish it, call fedrl.train again with the same arguments and this out"


class Run(NamedTuple):
    rows: list[Row]  # the log
    theta: (
        Tree  # the learnt parameters, with a leading seed axis; after `fedrl.load`, by their names in the policy file
    )
    returns: np.ndarray  # [seeds, clients] at the end
    folder: Path | None
    saved: SavedPolicy

    def policy(
        self,
        client: int | None = None,
        seed: int = 0,
        deterministic: bool = True,
        *,
        observation_space: Any = None,
        action_space: Any = None,
    ) -> Act:
        """The learnt policy as a function of NumPy observations: `action = run.policy()(observation)`, one or many.

        `client=None` acts like a client that was not in the federation. `seed` counts the run's seeds from 0. With
        `deterministic=False` actions are sampled; noise that training held for several steps is held for as many calls.
        `observation_space` and `action_space` are for a new client, if clients' bounds differ.
        """
        return self.saved.policy(
            client, seed, deterministic, observation_space=observation_space, action_space=action_space
        )

    def returns_by_client(self) -> np.ndarray:
        """Mean final return of each client over the seeds."""
        return of_each(self.returns)

    def plot(self, path: str | Path | None = None) -> Path:
        """Draw the learning curve to `path`, by default beside the log."""
        from fedrl.plots.curves import draw

        target = Path(path or (self.folder or Path(".")) / "figures" / "return.png")
        return draw({"": self.rows}, target)


def load(folder: str | Path) -> Run:
    """The finished run in `folder`: that of `fedrl.train(out=…)`, of a recipe with one arm, or of one arm of several.

    If a finished run was continued with more rounds and interrupted, returns the finished one, with a warning.
    """
    place = _arm(Path(folder))
    policy = saved.read(place / "policy.safetensors")
    rounds = policy.header.get("rounds")  # files of earlier versions do not say
    try:
        with safe_open(place / "returns.safetensors", "np") as file:
            returns, evaluated = file.get_tensor("returns"), (file.metadata() or {}).get("rounds")
        rows = log.read(place / "log.jsonl")
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{place} is not a whole finished run ({error}); repeat it or use another copy") from None
    if not rows:
        raise RunFolderError(f"{place / 'log.jsonl'} is empty; repeat the run or use another copy")
    if evaluated is not None and evaluated != str(rounds):
        raise RunFolderError(
            f"{place} holds the policy of round {rounds} and the returns of round {evaluated}: it was interrupted; {FINISH}"
        )
    return Run(_up_to(rounds, rows, place), policy.tensors, returns, place, policy)


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
        stacklevel=3,
    )
    return [row for row in rows if row["round"] <= rounds]


def _arm(folder: Path) -> Path:
    if (folder / "policy.safetensors").exists():
        return folder
    arms = sorted(place for place in folder.glob("arms/*") if place.is_dir())
    finished = [arm for arm in arms if (arm / "policy.safetensors").exists()]
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
    raise RunFolderError(f"{folder} has no policy.safetensors; a run writes it when it is finished")
