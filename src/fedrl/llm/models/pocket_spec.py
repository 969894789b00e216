"""Pocket by its settings: loaded from the cache, or first made by imitating public expert episodes of its application."""

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

VERSION = 3  # of the procedure; another number makes all models anew


@checked_class
@dataclass(frozen=True)
class Pocket:
    application: Settings
    size: Size = field(default_factory=Size)
    passes: int = 1  # over the demonstrations; 0: an untrained network
    learning_rate: float = 1e-3
    language: float = 0.3  # weight of predicting every token of a demonstration, in addition to its decisions
    window: int | None = None  # of the prompts, as in `episodes.Acting`
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        at_least(0, passes=self.passes, language=self.language, seed=self.seed)
        at_least(1, threads=self.threads)
        above(0, "1e-3 is usual", learning_rate=self.learning_rate)
        if self.window is not None:
            at_least(0, "None tells them as one transcript", window=self.window)

    def open(self) -> Model:
        tokenizer, theta = _load_or_make(self)
        net = pocket.untrained(len(tokenizer), self.size, self.seed)
        model = make_trainable(net, tokenizer, None)
        load_theta(model, theta)
        return model

    def formatter(self) -> PromptFormatter:
        return PromptFormatter(_load_or_make(self)[0], POCKET)

    def init(self, key: Key) -> Theta:
        return {name: jnp.asarray(value) for name, value in self.first().items()}

    def first(self) -> Theta:
        return _load_or_make(self)[1]


@lru_cache(maxsize=2)
def _load_or_make(spec: Pocket) -> tuple[PreTrainedTokenizerFast, Theta]:
    """Tokenizer and parameters, loaded from the cache or made now, with the same bytes either way."""
    words = f"{VERSION} {type(spec.application).__name__} {asdict(spec)}"
    place = cached("pocket", words, partial(_make, spec))
    tokenizer = pocket.wrapped(Tokenizer.from_file(str(place / "tokenizer.json")))
    like = theta_of(make_trainable(pocket.untrained(len(tokenizer), spec.size, spec.seed), tokenizer, None))
    return tokenizer, read_theta(place, like)


def _make(spec: Pocket, place: Path) -> Theta:
    app = spec.application.build()
    plans = expert_plans(app)
    tokenizer = pocket.tokenizer(_texts(app, plans), spec.size)
    write_atomically(place / "tokenizer.json", tokenizer.backend_tokenizer.to_str().encode())
    model = make_trainable(pocket.untrained(len(tokenizer), spec.size, spec.seed), tokenizer, None)
    return clone_behaviour(
        model,
        {name: jnp.asarray(value) for name, value in theta_of(model).items()},
        PromptFormatter(tokenizer, POCKET),
        app,
        plans,
        passes=spec.passes,
        learning_rate=spec.learning_rate,
        language=spec.language,
        shuffle=generator_at(spec.seed, "pocket"),
        window=spec.window,
    )


def _texts(app: Application, plans: Plans) -> list[str]:
    """All observations and admissible commands of the demonstrated episodes."""
    env, texts = app.environment.make(), []
    for task, plan in plans.items():
        observation, info = env.reset(options={"task": task})
        for command in plan:
            texts += [observation, *info["admissible_commands"]]
            observation, _, _, _, info = env.step(command)
        texts.append(observation)
    return texts
