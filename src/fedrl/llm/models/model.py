"""A causal language model as an agent's policy; its trained parameters are read and written as named arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_layers import GradientCheckpointingLayer

from fedrl.arguments import at_least, checked_class

Theta = dict[str, Any]  # name -> array: the parameters that are trained, sent and averaged


class ModelError(ValueError):
    """The model is not available; the message is one sentence for the user."""


@checked_class
@dataclass(frozen=True)
class Lora:
    """Low-rank adapters on the linear maps of the last `layers` layers (0: all layers); the rest is frozen.

    With `freeze_a` only B of B A is trained, and A is the same everywhere; the mean of B then gives the mean of the
    products.
    """

    rank: int = 8
    alpha: int = 16
    layers: int = 0
    freeze_a: bool = False

    def __post_init__(self) -> None:
        at_least(1, "8 is usual", rank=self.rank, alpha=self.alpha)
        at_least(0, "0 takes all", layers=self.layers)


class Model(NamedTuple):
    net: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None  # None for a model that is only measured
    names: tuple[str, ...]  # of the parameters that are trained, in order
    lora: Lora | None


def make_trainable(
    net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, lora: Lora | None, *, checkpointing: bool = False
) -> Model:
    """The model of `net`, with adapters, or with all its parameters trained.

    With `checkpointing`, layers do not store activations while learning but compute them again (`gradient_checkpointing`).
    """
    adapt(net, lora)
    net.eval()  # no dropout: acting and learning use the same network
    net.config.use_cache = False  # readers keep their own caches
    if checkpointing:
        net.gradient_checkpointing_enable({"use_reentrant": False})
        net.disable_input_require_grads()  # otherwise gradients also flow through frozen layers, down to the embeddings
    names = tuple(name for name, parameter in net.named_parameters() if parameter.requires_grad)
    return Model(net, tokenizer, names, lora)


def adapt(net: PreTrainedModel, lora: Lora | None) -> None:
    """Require gradients only for trained parameters: all, or adapters, which are inserted here in single precision."""
    net.requires_grad_(lora is None)
    if lora is None:
        return
    depth, linear = net.config.num_hidden_layers, linear_layers(net)
    if not 0 <= lora.layers <= depth:
        raise ValueError(f"lora.layers must be from 1 to {depth}, the model's layers (0: all), got {lora.layers}")
    if not linear:
        raise ValueError(
            f"{type(net).__name__} has no linear maps in its layers to put adapters on; train all of it: lora=None"
        )
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=linear, layers_to_transform=adapted_layers(net, lora),
        lora_dropout=0.0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):  # one factor is random: always the same draw, without affecting other draws
        torch.manual_seed(0)
        inject_adapter_in_model(config, net, low_cpu_mem_usage=net.device.type == "meta")
    for name, parameter in net.named_parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
            parameter.requires_grad_(not (lora.freeze_a and "lora_A" in name))


def adapted_layers(net: PreTrainedModel, lora: Lora) -> list[int]:
    depth = net.config.num_hidden_layers
    return list(range(depth - (lora.layers or depth), depth))


def linear_layers(net: PreTrainedModel) -> list[str]:
    """The names of the linear maps in the layers: all but the output head."""
    head, names = net.get_output_embeddings(), set()
    for name, module in net.named_modules():
        if isinstance(module, torch.nn.Linear | BaseTunerLayer) and module is not head:
            names.add(name.removesuffix(".base_layer").split(".")[-1])
    return sorted(name for name in names if name != "default")  # inside an adapter


def theta_of(model: Model) -> Theta:
    """A copy of the trained parameters."""
    parameters = dict(model.net.named_parameters())
    return {name: parameters[name].detach().float().cpu().numpy().copy() for name in model.names}


@torch.no_grad()
def load_theta(model: Model, theta: Theta) -> None:
    """Set the trained parameters to `theta`."""
    parameters = dict(model.net.named_parameters())
    for name in model.names:
        parameters[name].copy_(torch.from_numpy(np.array(theta[name])))


def gradients(model: Model) -> Theta:
    """The gradients of the trained parameters; zero for those that the loss does not depend on."""
    parameters = dict(model.net.named_parameters())
    return {
        name: (p.grad if p.grad is not None else torch.zeros_like(p)).float().cpu().numpy()
        for name, p in ((name, parameters[name]) for name in model.names)
    }


@contextmanager
def gradient_checkpointing(model: Model) -> Iterator[None]:
    """Use around taking gradients: with checkpointing, trained layers drop their activations and compute them again.

    transformers does so only in layers whose `training` flag is set. It is set on these layers alone and not on their
    submodules, so that no dropout becomes active.
    """
    layers = [
        layer
        for layer in model.net.modules()
        if isinstance(layer, GradientCheckpointingLayer)
        and layer.gradient_checkpointing
        and any(parameter.requires_grad for parameter in layer.parameters())
    ]
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


@contextmanager
def reference_parameters(model: Model, first: Theta | None) -> Iterator[None]:
    """The model before any training: with the parameters `first`, or without its adapters if that is None."""
    if first is None:
        with _without_adapters(model):
            yield
        return
    parameters = {name: p for name, p in model.net.named_parameters() if name in model.names}
    current = {name: parameter.data for name, parameter in parameters.items()}
    for name, parameter in parameters.items():
        value = torch.from_numpy(np.require(first[name], requirements="W"))
        parameter.data = value.to(parameter.device, parameter.dtype)
    try:
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = current[name]


@contextmanager
def _without_adapters(model: Model) -> Iterator[None]:
    if model.lora is None:
        raise ValueError("a model without adapters is as it came only with the parameters it had; give them as first")
    layers = [module for module in model.net.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
        for name, parameter in model.net.named_parameters():
            parameter.requires_grad_(name in model.names)
