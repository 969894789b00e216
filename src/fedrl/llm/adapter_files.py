"""Adapters in the format of peft: a folder with adapter_config.json and adapter_model.safetensors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedrl.llm.models.model import Lora, Model, ModelError, Theta, adapted_layers, linear_layers

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX, ADAPTER = "base_model.model.", ".default."  # in peft's names of tensors, and in those of a network in use
PLAIN = {"use_dora": False, "use_rslora": False, "bias": "none", "modules_to_save": None, "alpha_pattern": {}}


def save_adapter(model: Model, folder: Path) -> None:
    """Save the adapters of `model`, including frozen factors."""
    lora = model.lora
    if lora is None:
        raise ModelError("all parameters of this model were trained, so it has no adapter; export it as 'merged'")
    net = model.net
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=linear_layers(net), lora_dropout=0.0,
        layers_to_transform=adapted_layers(net, lora), task_type="CAUSAL_LM", inference_mode=True,
        base_model_name_or_path=net.name_or_path,
    )  # fmt: skip
    config.save_pretrained(str(folder))
    tensors = {
        PREFIX + name.replace(ADAPTER, "."): parameter.detach().cpu().contiguous()
        for name, parameter in net.named_parameters()
        if "lora_" in name
    }
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def read_adapter(folder: str | Path, lora: Lora | None, shapes: dict[str, tuple[int, ...]]) -> Theta:
    """The adapter in `folder`, under the network's own names; it must match `lora` and exactly these `shapes`."""
    if lora is None:
        raise ModelError(
            f"the adapter {folder} needs adapters to start, and all parameters are trained; give lora=Lora(…)"
        )
    config, tensors = _files(Path(folder))
    if odd := [name for name, plain in PLAIN.items() if config.get(name) not in (plain, None)]:
        raise ModelError(
            f"the adapter {folder} uses {odd[0]}, expected plain LoRA; merge it into its model and start there"
        )
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if (rank, alpha) != (lora.rank, lora.alpha):
        raise ModelError(
            f"the adapter {folder} has rank {rank} and alpha {alpha}, training {lora.rank} and {lora.alpha}; "
            f"give lora=Lora(rank={rank}, alpha={alpha}, layers=…)"
        )
    arrays = {_own_name(name): tensor.float().numpy() for name, tensor in tensors.items()}
    differing = sorted(
        name for name in arrays.keys() | shapes.keys() if name not in arrays or arrays[name].shape != shapes.get(name)
    )
    if differing:
        raise ModelError(
            f"the adapter {folder} does not fit the model's adapters: {len(differing)} of their arrays differ, "
            f"{differing[0]} among them; choose the layers that it adapts: lora=Lora(…, layers=…)"
        )
    return arrays


@torch.no_grad()
def load_adapter(model: Model, adapter: Theta) -> None:
    """Load `adapter` into the model, frozen factors included."""
    parameters = dict(model.net.named_parameters())
    for name, value in adapter.items():
        parameters[name].copy_(torch.from_numpy(np.array(value)))


def _files(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    try:
        return json.loads((folder / CONFIG).read_text()), load_file(folder / WEIGHTS)
    except (OSError, json.JSONDecodeError, SafetensorError) as error:
        raise ModelError(
            f"{folder} is no adapter of peft ({error}); pass a folder with {CONFIG} and {WEIGHTS}"
        ) from None


def _own_name(name: str) -> str:
    """base_model.model.X.lora_A.weight -> X.lora_A.default.weight."""
    stem, factor, rest = name.removeprefix(PREFIX).rpartition(".lora_")[0], *name.rpartition(".lora_")[1:]
    return f"{stem}{factor}{rest[0]}{ADAPTER}{rest[2:]}"
