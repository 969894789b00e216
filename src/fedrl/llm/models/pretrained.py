"""Pretrained models by name: SmolLM2 from its wheel, or any causal language model in a folder or on the hub."""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch

from fedrl import keys
from fedrl.arguments import above, at_least, checked_class
from fedrl.keys import Key
from fedrl.llm.adapter_files import load_adapter, read_adapter
from fedrl.llm.context import PromptFormatter, of_chat
from fedrl.llm.models import weights_cache
from fedrl.llm.models.behaviour_cloning import Settings, cached, clone_behaviour, expert_plans, read_theta
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.memory import Plan, skeleton
from fedrl.llm.models.model import Lora, Model, Theta, make_trainable
from fedrl.llm.models.model import ModelError as ModelError
from fedrl.llm.models.resolve import SMOLLM2, identity, resolve, tokenizer_of
from fedrl.llm.randomness import generator_at

FREE = "You act in a text world."  # for free answers, whose form is explained with the observation
SYSTEM = f"{FREE} Answer with one of the actions you can take, and nothing else."
DTYPES = ("auto", "float32", "bfloat16")
VERSION = 3  # of the procedure of a warm start; another number makes all anew


@checked_class
@dataclass(frozen=True)
class Warm:
    """Imitation of public demonstrations before training: our addition to the paper, whose gain is reported separately."""

    application: Settings
    demonstrations: int = 48  # of the application's public ones
    passes: int = 3
    learning_rate: float = 5e-4
    minibatch: int = 4  # texts
    window: int | None = None  # of the prompts, as in `episodes.Acting`
    threads: int = 2  # of the one process that does it, before any worker starts
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, demonstrations=self.demonstrations, minibatch=self.minibatch, threads=self.threads)
        at_least(0, passes=self.passes, seed=self.seed)
        above(0, "5e-4 suits adapters", learning_rate=self.learning_rate)
        if self.window is not None:
            at_least(0, "None tells them as one transcript", window=self.window)


@checked_class
@dataclass(frozen=True)
class Pretrained:
    """`name` is "smollm2", a folder, or a name on the hub such as "Qwen/Qwen2.5-1.5B-Instruct".

    Adapters and messages are in single precision, whatever the precision of the rest. theta_0, where training starts and
    which is the reference of the KL term, is the original model, or the one after its warm start if there is one.

    `adapter` is a peft folder from which training starts instead; `lora` must match its rank, alpha and layers.

    Only weights in safetensors are read, and no code of the model's own runs, unless `trust` is set.
    """

    name: str = SMOLLM2
    lora: Lora | None = Lora(rank=8, alpha=16, layers=12)
    system: str = SYSTEM
    threads: int = 2  # with several worker processes: cores / workers
    dtype: str = "auto"  # "float32", "bfloat16", or the better of them (`best_dtype`)
    checkpointing: bool = False  # compute activations twice rather than keep them while learning
    warm: Warm | None = None
    shows_commands: bool = True  # in addition to the observation, which in WebShop shows them anyway
    tokens: int = 2048  # in one learning step at a time, as `Grpo.at_once`; only for the estimate of memory
    trust: bool = False  # allow its own code and pickled weights, which may run anything on this machine
    adapter: str | None = None

    def __post_init__(self) -> None:
        if self.adapter is not None and (self.warm is not None or self.lora is None):
            other = "warm" if self.warm is not None else "lora=None"
            raise ValueError(
                f"training starts from the adapter {self.adapter}, which excludes {other}; leave one of them out"
            )
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is one of {', '.join(DTYPES)}, got {self.dtype!r}")
        at_least(1, threads=self.threads, tokens=self.tokens)

    def open(self) -> Model:
        tokenizer = tokenizer_of(self.name, self.trust)
        net = weights_cache.shared_net(self.name, self._plan())
        model = make_trainable(net, tokenizer, self.lora, checkpointing=self.checkpointing)
        if self.adapter is not None:
            load_adapter(model, self._adapter(self.adapter))
        return model

    def formatter(self) -> PromptFormatter:
        return _formatter(self.name, self.trust, self.system, self.shows_commands)

    def init(self, key: Key) -> Theta:
        """theta_0. New adapters have no effect: A is random, B is zero."""
        first = self.first()
        if first is not None:
            return {name: jnp.asarray(value) for name, value in first.items()}
        return {
            name: jnp.zeros(shape)
            if "lora_B" in name
            else jax.random.normal(keys.of(key, "adapter", index), shape) / shape[1] ** 0.5
            for index, (name, shape) in enumerate(self._shapes().items())
        }

    def first(self) -> Theta | None:
        if self.warm is not None:
            return _load_or_warm_up(self)
        if self.adapter is not None:
            adapter = self._adapter(self.adapter)
            return {name: adapter[name] for name in self._shapes()}
        return None if self.lora is not None else weights_cache.initial_theta(self.name, self._plan())

    def _plan(self) -> Plan:
        dtype = best_dtype() if self.dtype == "auto" else getattr(torch, self.dtype)
        return Plan(self.lora, dtype, self.checkpointing, self.tokens, self.trust)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the trained parameters, in order, without reading any weights."""
        model = skeleton(resolve(self.name, self.trust).config, self._plan())
        parameters = dict(model.net.named_parameters())
        return {name: tuple(parameters[name].shape) for name in model.names}

    def _adapter(self, folder: str) -> Theta:
        """The whole adapter, including factors that are not trained."""
        net = skeleton(resolve(self.name, self.trust).config, self._plan()).net
        shapes = {name: tuple(parameter.shape) for name, parameter in net.named_parameters() if "lora_" in name}
        return read_adapter(folder, self.lora, shapes)


@lru_cache(maxsize=2)
def _formatter(name: str, trust: bool, system: str, shows_commands: bool) -> PromptFormatter:
    tokenizer = tokenizer_of(name, trust)
    return PromptFormatter(tokenizer, of_chat(tokenizer, system, shows_commands=shows_commands))


@lru_cache(maxsize=2)
def _load_or_warm_up(spec: Pretrained) -> Theta:
    """theta_0, loaded from the cache or made now, with the same bytes either way."""
    warm = spec.warm
    assert warm is not None
    words = (
        f"{VERSION} {identity(spec.name, spec.trust)} {spec.lora} {spec._plan().dtype} {weights_cache.device()} "
        f"{spec.system!r} {spec.checkpointing} {spec.shows_commands} {type(warm.application).__name__} {asdict(warm)}"
    )
    place = cached("warm", words, partial(_make, replace(spec, warm=None, threads=warm.threads), warm))
    return read_theta(place, {name: np.zeros(shape, np.float32) for name, shape in spec._shapes().items()})


def _make(cold: Pretrained, warm: Warm, place: Path) -> Theta:
    app = warm.application.build()
    return clone_behaviour(
        open_model(cold),
        cold.init(keys.of_seed(warm.seed)),
        cold.formatter(),
        app,
        expert_plans(app, warm.demonstrations),
        passes=warm.passes,
        learning_rate=warm.learning_rate,
        shuffle=generator_at(warm.seed, "warm"),
        minibatch=warm.minibatch,
        window=warm.window,
    )


def best_dtype() -> torch.dtype:
    """bfloat16 where it is fast: on CUDA. Processors without units for it are several times slower than in float32.

    On a virtual machine that announces such units (AMX) without having them, using bfloat16 kills the process with an
    illegal instruction; ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 in the environment prevents that.
    """
    return torch.bfloat16 if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else torch.float32
