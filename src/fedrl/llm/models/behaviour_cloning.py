"""Models that have imitated public expert episodes of an application: made once, then loaded from the cache.

Imitation is our addition to the paper; its gain is reported separately from that of federated learning.
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
    """The settings of an application: hashable, and they determine what `build` returns."""

    def __hash__(self) -> int: ...

    def build(self) -> Application: ...


def cached(kind: str, words: str, make: Callable[[Path], Theta]) -> Path:
    """The cache folder of the model that `words` identify; made now if there is none.

    `make` may write other files as well. The parameters it returns are written last, so if they exist, everything does.
    """
    place = cache_folder(kind) / hashlib.sha256(words.encode()).hexdigest()[:20]
    if not (place / THETA).exists():
        place.mkdir(parents=True, exist_ok=True)
        with jax.ensure_compile_time_eval():  # even while `init` is being traced
            theta = make(place)
        save_tree(place / THETA, {name: np.asarray(value) for name, value in theta.items()})
    return place


def read_theta(place: Path, like: Theta) -> Theta:
    theta: Theta = load_tree(place / THETA, like)
    return theta


def expert_plans(app: Application, most: int | None = None) -> Plans:
    """The experts' commands in the public tasks, or in the first `most` of them."""
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
    """`theta` after imitating the plans `shown`, with prompts as `window` says (see `episodes.Acting`)."""
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
    """A callback that prints the progress every few seconds and at the end."""
    start = last_print = time.monotonic()

    def callback(step: int, steps: int, loss: float) -> None:
        nonlocal last_print
        now = time.monotonic()
        if now - last_print >= PAUSE or step == steps:
            last_print = now
            seconds_left = (now - start) / step * (steps - step)
            print(f"imitation: step {step} of {steps}, loss {loss:.3f}, {seconds_left:.0f} s left", file=sys.stderr)

    return callback
