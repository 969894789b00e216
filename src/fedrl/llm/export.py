"""A trained language agent as a folder for use without fedrl: an adapter for peft and vLLM, or a whole model."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import AutoModelForCausalLM, PreTrainedModel

from fedrl.export.check import ExportError
from fedrl.llm.adapter_files import save_adapter
from fedrl.llm.models.loading import Spec, open_model
from fedrl.llm.models.model import Model, Theta, load_theta

TEXTS, LENGTH = 4, 64  # of random tokens, on which logits are compared
ALLOWED = {
    torch.float32: 1e-4,
    torch.bfloat16: 0.05,
}  # relative to the largest logit: the rounding error of merged weights


class AgentReport(NamedTuple):
    folder: Path
    format: str
    tokens: int  # on which logits were compared
    difference: float  # of logits, the largest
    largest: float  # logit


def export(spec: Spec, theta: Theta, folder: str | Path, format: str) -> AgentReport:
    """Write the model of `spec` with the parameters `theta` (of one seed) to the new `folder`.

    "peft": adapter_config.json, adapter_model.safetensors and the tokenizer. "merged": a Hugging Face model with the
    adapters added to its weights, also where all parameters were trained. The folder is read back as users would read it,
    and removed if its logits differ from those of the trained model.
    """
    writers: dict[str, Callable[[Model, Path], None]] = {"peft": save_adapter, "merged": _save_merged}
    if format not in writers:
        raise ExportError(f"a language agent is exported as peft or merged, got {format!r}; choose one of the two")
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(f"{folder} holds something already; pass a new folder")
    model = open_model(spec)
    load_theta(model, theta)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writers[format](model, folder)
        assert model.tokenizer is not None
        model.tokenizer.save_pretrained(folder)
    except OSError as error:
        raise ExportError(f"cannot write to {folder} ({error.strerror}); pass a folder that you may write to") from None
    except ValueError:
        folder.rmdir()
        raise
    difference, largest = _compare(model, _read_back(model, folder, format))
    if not difference <= ALLOWED[model.net.dtype] * max(1.0, largest):
        shutil.rmtree(folder)
        rounds = format == "merged" and model.lora and model.net.dtype == torch.bfloat16
        advice = "bfloat16 rounds such adapters too coarsely: export them as 'peft'" if rounds else "please report it"
        raise ExportError(
            f"the logits of the {format} export differ from the model's by {difference:.1e}, so {folder} was removed; "
            f"{advice}"
        )
    return AgentReport(folder, format, TEXTS * LENGTH, difference, largest)


def _save_merged(model: Model, folder: Path) -> None:
    net = without_adapters(model.net, merge=True)
    net.config.use_cache = True
    net.save_pretrained(folder)


def without_adapters(net: PreTrainedModel, *, merge: bool) -> PreTrainedModel:
    """A separate network with plain layers: adapters merged into copied weights, or left out and the weights shared."""
    shared = {} if merge else {id(tensor): tensor for tensor in (*net.parameters(), *net.buffers())}
    plain = copy.deepcopy(net, shared)
    for name, layer in list(plain.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            if merge:
                layer.merge()
            parent, _, child = name.rpartition(".")
            setattr(plain.get_submodule(parent), child, layer.get_base_layer())
    if hasattr(plain, "peft_config"):
        del plain.peft_config
    return plain


def _read_back(model: Model, folder: Path, format: str) -> torch.nn.Module:
    if format == "merged":
        whole: torch.nn.Module = AutoModelForCausalLM.from_pretrained(
            folder, dtype=model.net.dtype, device_map=str(model.net.device), use_safetensors=True
        )
        return whole
    base = without_adapters(model.net, merge=False)
    return PeftModel.from_pretrained(base, str(folder))


@torch.no_grad()
def _compare(model: Model, other: torch.nn.Module) -> tuple[float, float]:
    """The largest difference of logits on random texts, and the largest logit."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(model.net.config.vocab_size, (TEXTS, LENGTH), generator=draw).to(model.net.device)
    expected, actual = (net.eval()(input_ids=ids).logits.float() for net in (model.net, other))
    return float((expected - actual).abs().max()), float(expected.abs().max())
