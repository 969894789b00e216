"""Which tasks a model wins: the success labels of HardnessPartition (fedagent, Algorithm 4), stored in a file."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.llm.episodes import Acting, Noise, draw_noise, play
from fedrl.llm.evaluation import EPISODES_AT_ONCE, HELD_OUT_ACTING
from fedrl.llm.models.behaviour_cloning import Settings
from fedrl.llm.models.loading import Spec, open_model
from fedrl.llm.models.model import Theta, load_theta
from fedrl.llm.randomness import generator_at
from fedrl.records.tensors import write_atomically

Won = dict[int, float]  # task -> the share of its episodes that were won
# The settings that determine labels, besides the application:
DETERMINING = ("theta", "decode", "temperature", "window", "most_tokens", "episodes", "seed")


class LabelsError(ValueError):
    """The labels cannot be used as asked; the message is one sentence for the user."""


def label(
    spec: Spec,
    theta: Theta,
    settings: Settings,
    path: str | Path,
    *,
    by: dict[str, Any] | None = None,
    episodes: int = 1,
    seed: int = 0,
    acting: Acting = HELD_OUT_ACTING,
    callback: Callable[[Won], None] | None = None,
) -> Won:
    """Play `episodes` episodes of every task in the application's pool with the parameters `theta`; `path` records the wins.

    The file is written after every batch of tasks. If stopped at any instant, the same call continues from the file and ends
    with the same bytes, because draws are addressed by `seed` and task. `by` is stored in the file and describes the model.
    `callback` is called with the labels so far.
    """
    if episodes < 1:
        raise LabelsError(f"a label needs at least 1 episode of each task, got {episodes}; try 1")
    path, app = Path(path), settings.build()
    head = {
        "application": _as_json(settings),
        "theta": _fingerprint(theta),
        "decode": acting.decode,
        "temperature": acting.temperature,
        "window": acting.window,
        "most_tokens": acting.most_tokens if acting.decode == "free" else None,
        "episodes": episodes,
        "seed": seed,
        "by": by or {},
        "tasks": len(app.pool),
    }
    won = _existing_labels(path, head)
    if callback:
        callback(won)
    if all(int(task) in won for task in app.pool):
        return won
    path.parent.mkdir(parents=True, exist_ok=True)
    model, formatter, most = open_model(spec), spec.formatter(), max(1, EPISODES_AT_ONCE // episodes)
    load_theta(model, theta)
    for first in range(0, len(app.pool), most):  # always the same batches, because rounding depends on the batch
        batch = [int(task) for task in app.pool[first : first + most]]
        if all(task in won for task in batch):
            continue
        noises = [
            draw_noise(generator_at(seed, "label", task, n), 1, acting) for task in batch for n in range(episodes)
        ]
        episodes_played = play(model, formatter, app.environment.make, batch, episodes, _concatenate(noises), acting)
        wins = np.array([episode.won for episode in episodes_played], float).reshape(len(batch), episodes)
        won |= dict(zip(batch, wins.mean(axis=1).tolist(), strict=True))
        labels = {str(task): bool(share) if episodes == 1 else share for task, share in sorted(won.items())}
        write_atomically(path, (json.dumps(head | {"won": labels}, indent=1) + "\n").encode())
        if callback:
            callback(won)
    return won


def read(path: str | Path, settings: Settings, pool: Sequence[int] | np.ndarray, *, least: float = 0.5) -> np.ndarray:
    """Whether each task of `pool` is solved [tasks], bool: won in at least the share `least` of its labelled episodes.

    `settings` are those of the application (`WebShop`, `Household`) that `pool` belongs to; labels of another are refused.
    """
    if not 0 < least <= 1:
        raise LabelsError(f"least must be a share above 0 and at most 1, got {least}; try 0.5")
    content = _read_file(Path(path))
    if difference := _difference(content["application"], _as_json(settings)):
        raise LabelsError(
            f"{path} has labels of another application ({difference}); label its tasks with `fedrl agents label` and a run "
            "of these settings"
        )
    won = content["won"]
    missing = [int(task) for task in pool if int(task) not in won]
    if missing:
        examples = ", ".join(map(str, missing[:3])) + (", …" if len(missing) > 3 else "")
        raise LabelsError(
            f"{path} has no labels of {len(missing)} of {len(pool)} tasks ({examples}); the same `fedrl agents label` again "
            "goes on where it stopped"
        )
    return np.array([won[int(task)] >= least for task in pool], bool)


def _concatenate(noises: list[Noise]) -> Noise:
    return lambda step: np.concatenate([noise(step) for noise in noises])


def _existing_labels(path: Path, head: dict[str, Any]) -> Won:
    """The labels that an earlier call with the same settings left in the file."""
    if not path.exists():
        return {}
    content = _read_file(path)
    old, new = ({key: it.get(key) for key in DETERMINING} for it in (content, head))
    if difference := _difference(content["application"], head["application"]) or _difference(old, new):
        raise LabelsError(f"{path} has other labels ({difference}); pass another --out, or remove this file")
    won: Won = content["won"]
    return won


def _read_file(path: Path) -> dict[str, Any]:
    """The file, with its labels as `Won`."""
    advice = f"make it with `fedrl agents label RUN --out {path}`"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content["application"], dict):
            raise TypeError
        return content | {"won": {int(task): float(share) for task, share in content["won"].items()}}
    except FileNotFoundError:
        raise LabelsError(f"there are no labels in {path}, no such file; {advice}") from None
    except json.JSONDecodeError as error:
        raise LabelsError(f"{path} is not valid JSON ({error}); {advice}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise LabelsError(f"{path} is no file of labels; {advice}") from None


def _as_json(settings: Settings) -> dict[str, Any]:
    """Settings as they look after a round trip through JSON."""
    data: dict[str, Any] = json.loads(json.dumps({"name": type(settings).__name__, **vars(settings)}, default=vars))
    return data


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    for key in dict.fromkeys([*new, *old]):
        if old.get(key) != new.get(key):
            return f"{key} is {old.get(key)!r} there, {new.get(key)!r} here"
    return ""


def _fingerprint(theta: Theta) -> str:
    digest = hashlib.sha256()
    for name in sorted(theta):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(theta[name]).tobytes())
    return digest.hexdigest()[:20]
