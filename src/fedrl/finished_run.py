"""A finished run: what `fedrl.train` returns, and what `fedrl.load` brings back from its folder."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedrl.policies import saved
from fedrl.policies.saved import Act, SavedPolicy
from fedrl.records import log
from fedrl.records.folder import RunFolderError
from fedrl.records.rows import Row, of_each
from fedrl.trees import Tree


class Run(NamedTuple):
    rows: list[Row]  # the log
    theta: (
        Tree  # the learnt parameters, with a leading seed axis; after `fedrl.load` by their names in the policy's file
    )
    returns: np.ndarray  # [seeds, clients] at the end
    folder: Path | None
    saved: SavedPolicy

    def policy(self, client: int | None = None, seed: int = 0, deterministic: bool = True, **spaces: Any) -> Act:
        """What was learnt, as a function of NumPy observations: `action = run.policy()(observation)`, one or many.

        `client` None acts as a client does that was never in the federation. `seed` counts the run's seeds from 0.
        A policy that is not `deterministic` draws its actions; noise that was held for several steps in training is held
        for as many calls. `observation_space=` and `action_space=` as `SavedPolicy.policy` says.
        """
        return self.saved.policy(client, seed, deterministic, **spaces)

    def returns_by_client(self) -> np.ndarray:
        """Mean final return of each client over the seeds."""
        return of_each(self.returns)

    def plot(self, path: str | Path | None = None) -> Path:
        """Draw the learning curve; beside the log unless `path` says where."""
        from fedrl.plots.curves import draw

        target = Path(path or (self.folder or Path(".")) / "figures" / "return.png")
        return draw({"": self.rows}, target)


def load(folder: str | Path) -> Run:
    """The finished run in `folder`: that of `fedrl.train(out=…)`, of a recipe with one arm, or of one arm of several."""
    place = _arm(Path(folder))
    policy = saved.read(place / "policy.safetensors")
    try:
        returns = load_file(place / "returns.safetensors")["returns"]
    except (OSError, SafetensorError, KeyError) as error:
        raise RunFolderError(f"{place} is not a whole finished run ({error}); repeat it or use another copy") from None
    return Run(log.read(place / "log.jsonl"), policy.tensors, returns, place, policy)


def _arm(folder: Path) -> Path:
    if (folder / "policy.safetensors").exists():
        return folder
    arms = sorted(file.parent for file in folder.glob("arms/*/policy.safetensors"))
    if len(arms) == 1:
        return arms[0]
    if arms:
        names = ", ".join(str(arm) for arm in arms)
        raise RunFolderError(f"{folder} holds {len(arms)} arms; load one of them: {names}")
    raise RunFolderError(f"{folder} has no policy.safetensors; a run writes it when it is finished")
