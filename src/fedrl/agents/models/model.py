"""A causal language model as an agent's policy: what of it is trained, as named arrays in and out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import PreTrainedModel, PreTrainedTokenizerBase

Theta = dict[str, Any]  # name -> array: what is trained, averaged and travels


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters on the linear maps of the last `layers` layers (0: of all), the rest being frozen."""

    rank: int = 8
    alpha: int = 16
    layers: int = 0


class Model(NamedTuple):
    net: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    names: tuple[str, ...]  # of the parameters that are trained, in order
    lora: Lora | None


def trained(net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, lora: Lora | None) -> Model:
    """`net` made ready: with adapters, or with all its parameters to be trained."""
    net.requires_grad_(lora is None)
    if lora is not None:
        depth = net.config.num_hidden_layers
        if not 0 <= lora.layers <= depth:
            raise ValueError(f"lora wants from 1 to {depth} of the model's layers (0: all), got {lora.layers}")
        last = list(range(depth - (lora.layers or depth), depth))
        config = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, target_modules=_linear(net), layers_to_transform=last, lora_dropout=0.0
        )
        with torch.random.fork_rng(devices=[]):  # one factor starts at random: always the same, and nobody else's draws
            torch.manual_seed(0)
            inject_adapter_in_model(config, net)
    net.eval()  # no dropout: rolling out and learning see the same network
    names = tuple(name for name, parameter in net.named_parameters() if parameter.requires_grad)
    return Model(net, tokenizer, names, lora)


def _linear(net: PreTrainedModel) -> list[str]:
    """The names of the linear maps in the layers: all but the one that gives the words their scores."""
    head = net.get_output_embeddings()
    found = {name.split(".")[-1] for name, m in net.named_modules() if isinstance(m, torch.nn.Linear) and m is not head}
    return sorted(found)


def theta_of(model: Model) -> Theta:
    """The trained parameters as they are, copied."""
    parameters = dict(model.net.named_parameters())
    return {name: parameters[name].detach().float().cpu().numpy().copy() for name in model.names}


@torch.no_grad()
def load(model: Model, theta: Theta) -> None:
    """Make `theta` the trained parameters."""
    parameters = dict(model.net.named_parameters())
    for name in model.names:
        parameters[name].copy_(torch.from_numpy(np.array(theta[name])))


def gradients(model: Model) -> Theta:
    """Of the trained parameters; those that nothing reached have none, which is zero."""
    parameters = dict(model.net.named_parameters())
    return {
        name: (p.grad if p.grad is not None else torch.zeros_like(p)).float().cpu().numpy()
        for name, p in ((name, parameters[name]) for name in model.names)
    }


@contextmanager
def as_it_came(model: Model, first: Theta | None) -> Iterator[None]:
    """The model before any training: without its adapters, or with the parameters `first`."""
    if model.lora is not None:
        layers = [module for module in model.net.modules() if isinstance(module, BaseTunerLayer)]
        for layer in layers:
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in layers:
                layer.enable_adapters(True)
            model.net.requires_grad_(False)
            for name, parameter in model.net.named_parameters():
                parameter.requires_grad_(name in model.names)
        return
    assert first is not None
    now = theta_of(model)
    load(model, first)
    try:
        yield
    finally:
        load(model, now)
