"""Pocket by name: opened from the cache, or made first, by imitating public expert episodes of its application."""

from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import jax.numpy as jnp
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from fedrl.arguments import above, at_least, checked_class
from fedrl.keys import Key
from fedrl.llm.applications import Application
from fedrl.llm.context import POCKET, PromptFormatter
from fedrl.llm.models import pocket
from fedrl.llm.models.behaviour_cloning import Plans, Settings, cached, clone_behaviour, expert_plans, read_theta
from fedrl.llm.models.model import Model, Theta, load_theta, make_trainable, theta_of
from fedrl.llm.models.pocket import Size
from fedrl.llm.randomness import generator_at
from fedrl.records.tensors import write_atomically

VERSION = 3  # of what making one does: another number makes them anew


@checked_class
@dataclass(frozen=True)
class Pocket:
    application: Settings
    size: Size = field(default_factory=Size)
    passes: int = 1  # over the demonstrations; 0: a network that has seen nothing
    learning_rate: float = 1e-3
    language: float = 0.3  # weight of predicting every token of a demonstration, beside its decisions
    window: int | None = None  # how they are told, as in `episodes.Acting`
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        at_least(0, passes=self.passes, language=self.language, seed=self.seed)
        at_least(1, threads=self.threads)
        above(0, "1e-3 is usual", learning_rate=self.learning_rate)
        if self.window is not None:
            at_least(0, "None tells them as one transcript", window=self.window)

    def open(self) -> Model:
        tokenizer, theta = _made(self)
        net = pocket.untrained(len(tokenizer), self.size, self.seed)
        model = make_trainable(net, tokenizer, None)
        load_theta(model, theta)
        return model

    def formatter(self) -> PromptFormatter:
        return PromptFormatter(_made(self)[0], POCKET)

    def init(self, key: Key) -> Theta:
        return {name: jnp.asarray(value) for name, value in self.first().items()}

    def first(self) -> Theta:
        return _made(self)[1]


@lru_cache(maxsize=2)
def _made(spec: Pocket) -> tuple[PreTrainedTokenizerFast, Theta]:
    """Tokenizer and parameters, from the cache or made now: the same bytes either way."""
    words = f"{VERSION} {type(spec.application).__name__} {asdict(spec)}"
    place = cached("pocket", words, partial(_make, spec))
    tokenizer = pocket.wrapped(Tokenizer.from_file(str(place / "tokenizer.json")))
    like = theta_of(make_trainable(pocket.untrained(len(tokenizer), spec.size, spec.seed), tokenizer, None))
    return tokenizer, read_theta(place, like)


def _make(spec: Pocket, place: Path) -> Theta:
    app = spec.application.build()
    shown = expert_plans(app)
    tokenizer = pocket.tokenizer(_texts(app, shown), spec.size)
    write_atomically(place / "tokenizer.json", tokenizer.backend_tokenizer.to_str().encode())
    model = make_trainable(pocket.untrained(len(tokenizer), spec.size, spec.seed), tokenizer, None)
    return clone_behaviour(
        model,
        {name: jnp.asarray(value) for name, value in theta_of(model).items()},
        PromptFormatter(tokenizer, POCKET),
        app,
        shown,
        passes=spec.passes,
        learning_rate=spec.learning_rate,
        language=spec.language,
        shuffle=generator_at(spec.seed, "pocket"),
        window=spec.window,
    )


def _texts(app: Application, shown: Plans) -> list[str]:
    """All that is seen and may be said in the demonstrated episodes."""
    env, texts = app.environment.make(), []
    for task, plan in shown.items():
        seen, info = env.reset(options={"task": task})
        for command in plan:
            texts += [seen, *info["admissible_commands"]]
            seen, _, _, _, info = env.step(command)
        texts.append(seen)
    return texts
