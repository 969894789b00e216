"""Models that have imitated public expert episodes of an application: made once, then had from the cache.

Imitation is our addition to the paper; what it gives is reported apart from what federated learning does.
"""

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import jax
import numpy as np

from fedrl.cache_folder import cache_folder
from fedrl.llm.applications import Application
from fedrl.llm.context import PromptFormatter
from fedrl.llm.imitation import demonstration, imitate
from fedrl.llm.models.model import Model, Theta
from fedrl.records.tensors import load_tree, save_tree

THETA = "theta.safetensors"
PAUSE = 10.0  # seconds between two lines of progress

Plans = dict[int, list[str]]  # task -> the commands that win it


class Settings(Protocol):
    """Of an application: hashable, and what `build` gives follows from it."""

    def __hash__(self) -> int: ...

    def build(self) -> Application: ...


def cached(kind: str, words: str, make: Callable[[Path], Theta]) -> Path:
    """The folder in the cache of the model that `words` say all about; made now if there is none.

    `make` may write beside the parameters it returns; they are written last, so that where they are, all is.
    """
    place = cache_folder(kind) / hashlib.sha256(words.encode()).hexdigest()[:20]
    if not (place / THETA).exists():
        place.mkdir(parents=True, exist_ok=True)
        with jax.ensure_compile_time_eval():  # also where somebody is tracing `init`
            theta = make(place)
        save_tree(place / THETA, {name: np.asarray(value) for name, value in theta.items()})
    return place


def read_theta(place: Path, like: Theta) -> Theta:
    theta: Theta = load_tree(place / THETA, like)
    return theta


def expert_plans(app: Application, most: int | None = None) -> Plans:
    """What experts do in the public tasks, or in the first `most` of them."""
    if most is not None and not 1 <= most <= len(app.public):
        raise ValueError(f"{most} demonstrations were asked for, of 1 to {len(app.public)} public tasks there are")
    return {int(task): app.expert(int(task)) for task in app.public[:most]}


def clone_behaviour(
    model: Model,
    theta: Theta,
    formatter: PromptFormatter,
    app: Application,
    shown: Plans,
    *,
    passes: int,
    learning_rate: float,
    shuffle: np.random.Generator,
    language: float = 0.0,
    minibatch: int = 4,
    window: int | None = None,
) -> Theta:
    """`theta` after imitating what is `shown`, told as `window` says (see `episodes.Acting`)."""
    print(f"imitation of {len(shown)} demonstrations, {passes} passes, once", file=sys.stderr)
    samples = [
        sample
        for task, plan in shown.items()
        for sample in demonstration(formatter, app.environment.make, task, plan, window).samples()
    ]
    return imitate(
        model,
        theta,
        samples,
        passes=passes,
        learning_rate=learning_rate,
        language=language,
        shuffle=shuffle,
        minibatch=minibatch,
        callback=_progress(),
    )


def _progress() -> Callable[[int, int, float], None]:
    """Says how far it is, every few seconds and at the end."""
    began = said = time.monotonic()

    def callback(step: int, steps: int, loss: float) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= PAUSE or step == steps:
            said = now
            left = (now - began) / step * (steps - step)
            print(f"imitation: step {step} of {steps}, loss {loss:.3f}, {left:.0f} s left", file=sys.stderr)

    return callback
