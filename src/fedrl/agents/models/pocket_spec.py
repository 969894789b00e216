"""Pocket by name: opened from the cache, or made first, by imitating public expert episodes of its application."""

import hashlib
import sys
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from fedrl.agents.applications import Application
from fedrl.agents.context import POCKET, Teller
from fedrl.agents.imitation import demonstrated, imitate
from fedrl.agents.models import pocket
from fedrl.agents.models.model import Model, Theta, load, theta_of, trained
from fedrl.agents.models.pocket import Size
from fedrl.agents.partitions.draws import at
from fedrl.cache_folder import cache_folder
from fedrl.keys import Key
from fedrl.records.tensors import load_tree, save_tree, write_atomically

VERSION = 1  # of what making one does: another number makes them anew


class Settings(Protocol):
    """Of an application: hashable, and what `build` gives follows from it."""

    def __hash__(self) -> int: ...

    def build(self) -> Application: ...


@dataclass(frozen=True)
class Pocket:
    application: Settings
    size: Size = field(default_factory=Size)
    passes: int = 1  # over the demonstrations; 0: a network that has seen nothing
    rate: float = 1e-3
    language: float = 0.3  # weight of predicting every token of a demonstration, beside its decisions
    seed: int = 0
    threads: int = 1

    def open(self) -> Model:
        tokenizer, theta = _made(self)
        net = pocket.untrained(len(tokenizer), self.size, self.seed)
        model = trained(net, tokenizer, None)
        load(model, theta)
        return model

    def teller(self) -> Teller:
        return Teller(_made(self)[0], POCKET)

    def init(self, key: Key) -> Theta:
        return {name: jnp.asarray(value) for name, value in self.first().items()}

    def first(self) -> Theta:
        return _made(self)[1]


@lru_cache(maxsize=2)
def _made(spec: Pocket) -> tuple[PreTrainedTokenizerFast, Theta]:
    """Tokenizer and parameters, from the cache or made now: the same bytes either way."""
    words = f"{VERSION} {type(spec.application).__name__} {asdict(spec)}"
    place = cache_folder("pocket") / hashlib.sha256(words.encode()).hexdigest()[:20]
    if not (place / "theta.safetensors").exists():  # written last
        place.mkdir(parents=True, exist_ok=True)
        with jax.ensure_compile_time_eval():  # also where somebody is tracing `init`
            _make(spec, place)
    tokenizer = pocket.wrapped(Tokenizer.from_file(str(place / "tokenizer.json")))
    like = theta_of(trained(pocket.untrained(len(tokenizer), spec.size, spec.seed), tokenizer, None))
    return tokenizer, load_tree(place / "theta.safetensors", like)


def _make(spec: Pocket, place: Path) -> None:
    app = spec.application.build()
    print(f"making the pocket model ({len(app.public)} demonstrations, {spec.passes} passes), once", file=sys.stderr)
    plans = {int(task): app.expert(int(task)) for task in app.public}
    tokenizer = pocket.tokenizer(_texts(app, plans), spec.size)
    model = trained(pocket.untrained(len(tokenizer), spec.size, spec.seed), tokenizer, None)
    teller = Teller(tokenizer, POCKET)
    samples = [demonstrated(teller, app.world.make, task, plan) for task, plan in plans.items()]
    theta = imitate(
        model,
        {name: jnp.asarray(value) for name, value in theta_of(model).items()},
        samples,
        passes=spec.passes,
        rate=spec.rate,
        language=spec.language,
        shuffle=at(spec.seed, "pocket"),
        minibatch=4,
        watch=_progress,
    )
    write_atomically(place / "tokenizer.json", tokenizer.backend_tokenizer.to_str().encode())
    save_tree(place / "theta.safetensors", {name: np.asarray(value) for name, value in theta.items()})


def _texts(app: Application, plans: dict[int, list[str]]) -> list[str]:
    """All that is seen and may be said in the demonstrated episodes."""
    env, texts = app.world.make(), []
    for task, plan in plans.items():
        seen, info = env.reset(options={"task": task})
        for command in plan:
            texts += [seen, *info["admissible_commands"]]
            seen, _, _, _, info = env.step(command)
        texts.append(seen)
    return texts


def _progress(step: int, steps: int, loss: float) -> None:
    if step % 50 == 0 or step == steps:
        print(f"imitation: step {step} of {steps}, loss {loss:.3f}", file=sys.stderr)
