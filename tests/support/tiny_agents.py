"""A language agent for tests: a tiny Llama with a vocabulary of words, and a world of a few sentences."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import torch
from gymnasium.spaces import Text
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from fedrl.llm.applications import WebShop
from fedrl.llm.context import POCKET, PromptFormatter
from fedrl.llm.models import pocket
from fedrl.llm.models.behaviour_cloning import expert_plans
from fedrl.llm.models.model import Lora, Model, Theta, make_trainable, theta_of
from fedrl.llm.models.pocket import AGENT, END, WORLD, Size, untrained, wrapped
from fedrl.llm.models.pocket_spec import _texts
from fedrl.llm.tasks import TextEnvironment

COLOURS = ("red", "blue", "green")
WORDS = "find take the red blue green ball box look around wait you see a thing nothing happens done <action> </action>"
SMALL = Size(width=32, layers=2, heads=2, inner=48, longest=512)
TAKING = ["take the red ball", "take the blue box", "take the green ball"]


class Colours(gymnasium.Env[str, str]):
    """Task i: take what has colour i modulo three. Looking leaves only things to take; waiting leaves only looking."""

    def __init__(self, max_episode_steps: int = 4) -> None:
        self.max_episode_steps = max_episode_steps
        self.observation_space = self.action_space = Text(200)
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task, self.steps, self.score = int((options or {})["task"]), 0, 0.0
        self.commands = [*TAKING, "look around", "wait"]
        return f"find the {COLOURS[self.task % 3]} thing", self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert not self.closed
        self.steps += 1
        wanted, seen, done = COLOURS[self.task % 3], "nothing happens", False
        if action in self.commands and action in TAKING:
            self.score = 1.0 if wanted in action else 0.5 if "ball" in action else 0.0
            seen, done = "done", True
        elif action == "look around":
            self.commands, seen = list(TAKING), f"you see a {wanted} thing"
        elif action == "wait":
            self.commands = ["look around"]
        return seen, self.score, done, not done and self.steps >= self.max_episode_steps, self.info()

    def info(self) -> dict[str, Any]:
        return {
            "admissible_commands": self.commands,
            "task_type": "warm" if self.task % 3 == 0 else "cold",
            "score": self.score,
            "won": self.score == 1.0,
        }

    def close(self) -> None:
        self.closed = True


COLOURS_ENVIRONMENT = TextEnvironment(Colours)


@lru_cache(maxsize=1)
def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<unknown>", END, AGENT, WORLD, *WORDS.split()]
    pieces = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unknown>"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return wrapped(pieces)


def formatter() -> PromptFormatter:
    return PromptFormatter(tokenizer(), POCKET)


def net(seed: int = 0, spread: float = 0.12, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    """With larger weights than a new network has, so that what is read makes a difference."""
    made = untrained(len(tokenizer()), SMALL, seed).to(dtype)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * spread)
    return made


def tiny(seed: int = 0, lora: Lora | None = None, dtype: torch.dtype = torch.float32) -> Model:
    return make_trainable(net(seed, dtype=dtype), tokenizer(), lora)


def as_jax(theta: Theta) -> Theta:
    return {name: jnp.asarray(value) for name, value in theta.items()}


def uniform(seed: int, rows: int):
    """Noise for `play`: the same numbers whenever step t is asked for."""
    return lambda step: np.random.default_rng([seed, step]).random((rows, 64))


@dataclass(frozen=True)
class Tiny:
    """A spec of such a model."""

    lora: Lora | None = None
    seed: int = 0
    threads: int = 1

    def open(self) -> Model:
        return tiny(self.seed, self.lora)

    def formatter(self) -> PromptFormatter:
        return formatter()

    def init(self, key) -> Theta:
        return as_jax(self.first())

    def first(self) -> Theta:
        return theta_of(self.open())


CHAT = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %}<agent>{{ m['content'] }}<end>"
    "{% else %}<world>{{ m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}<agent>{% endif %}"
)


def saved_shopper(folder: Path, *, products: int, demonstrations: int, evaluate: int) -> Path:
    """A Llama with words of a shop, as save_pretrained leaves it."""
    shop = WebShop(products, held_out=evaluate, public=demonstrations).build()
    size = Size(width=16, layers=2, heads=2, inner=32)
    words = pocket.tokenizer(_texts(shop, expert_plans(shop)), size)
    words.chat_template = CHAT
    words.save_pretrained(folder)
    untrained(len(words), size, seed=1).save_pretrained(folder)  # which sometimes buys something
    return folder
