"""Find a model and its config before anything large is read: in SmolLM2's folder, in the user's, or on the hub.

Anything wrong is reported in one sentence with the next move (`ModelError`). A model may come with code of its own or with
pickled weights, which run code when they are read; neither is used unless the caller trusts it.
"""

import fnmatch
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from huggingface_hub.errors import HTTPError as HTTPError  # type: ignore[attr-defined]  # re-exported from its client
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from fedrl.llm.models import smollm2
from fedrl.llm.models.model import ModelError

SMOLLM2 = "smollm2"
PATIENCE = 10.0  # seconds to wait for the hub
CAUSAL = ("ForCausalLM", "LMHeadModel")
ANY = "model=smollm2 needs no network"
TRUST = "or, if you know who made it, allow that with trust=True"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


class ResolvedModel(NamedTuple):
    where: str  # a folder, or a name on the hub,
    commit: str | None  # and which version of it
    config: Any  # of transformers


@lru_cache(maxsize=4)
def resolve(name: str, trust: bool = False) -> ResolvedModel:
    """`name` is "smollm2", a folder, or a name on the hub; only with `trust` may it bring code of its own."""
    folder = smollm2.folder() if name == SMOLLM2 else Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ModelError(f"the folder {name} has no config.json; give one that save_pretrained has written")
        where, commit = str(folder), None
    elif name.startswith((".", "/", "~")):
        raise ModelError(f"there is no folder {name}; give the folder of a saved model, or a name on the hub")
    else:
        where, commit = _on_hub(name)
    config = _config(name, where, commit, trust)
    kinds = getattr(config, "architectures", None) or []
    if not any(kind.endswith(CAUSAL) for kind in kinds):
        raise ModelError(
            f"the model {name} is {', '.join(kinds) or 'of no known kind'}, expected a causal language model, such as "
            "Qwen2ForCausalLM; choose one that is"
        )
    _disable_dropout(config)
    return ResolvedModel(where, commit, config)


def _on_hub(name: str) -> tuple[str, str | None]:
    """Its name and newest commit, or the folder of an earlier download if the hub does not answer.

    The hub is asked only once, with a short timeout; transformers would retry for every file.
    """
    try:
        return name, HfApi().model_info(name, timeout=PATIENCE).sha
    except RepositoryNotFoundError:
        raise ModelError(
            f"there is no folder {name}, and the hub has no such model, or hides it; check its spelling"
        ) from None
    except HFValidationError:
        raise ModelError(f"there is no folder {name}, and no model on the hub can be called so; {ANY}") from None
    except (HTTPError, OSError) as error:
        try:
            return snapshot_download(name, local_files_only=True), None
        except FileNotFoundError:
            raise ModelError(
                f"there is no folder {name}, and the hub, where it may be, cannot be reached ({_reason(error)}); "
                f"fetch it where there is a network and give its folder ({ANY})"
            ) from error


def _config(name: str, where: str, commit: str | None, trust: bool) -> Any:
    try:
        return AutoConfig.from_pretrained(where, revision=commit or "main", trust_remote_code=trust)
    except (OSError, ValueError) as error:
        _refuse_code(name, error)
        if commit is None:
            raise ModelError(f"the config.json of {name} cannot be used ({_reason(error)}); get it anew") from error
        raise ModelError(
            f"the hub does not give {name} away ({_reason(error)}); accept its licence there and log in, or {ANY}"
        ) from error


def _disable_dropout(config: Any) -> None:
    """Switch dropout off, so that acting and learning use the same network."""
    for field, value in config.to_dict().items():
        if "drop" in field and isinstance(value, float):
            setattr(config, field, 0.0)


@lru_cache(maxsize=2)
def tokenizer_of(name: str, trust: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer, which must have a chat template to format episodes with."""
    model = resolve(name, trust)
    try:
        tokenizer = AutoTokenizer.from_pretrained(model.where, revision=model.commit or "main", trust_remote_code=trust)
    except (OSError, ValueError) as error:
        _refuse_code(name, error)
        raise ModelError(
            f"{name} has no tokenizer that can be read ({_reason(error)}); put the tokenizer.json and "
            "tokenizer_config.json it was trained with beside it"
        ) from error
    if not tokenizer.chat_template:
        raise ModelError(f"{name} has no chat template, so it is no instruct model; choose one that is")
    if len(tokenizer) > model.config.vocab_size:
        raise ModelError(
            f"the tokenizer of {name} knows {len(tokenizer)} tokens, its model {model.config.vocab_size}; "
            "put the tokenizer it was trained with beside it"
        )
    return tokenizer


def read_weights(name: str, dtype: torch.dtype, device: str, trust: bool = False) -> PreTrainedModel:
    """The complete weights: from safetensors, or with `trust` from pickled files if there are no others."""
    model = resolve(name, trust)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            model.where,
            config=model.config,
            dtype=dtype,
            device_map=device,
            revision=model.commit or "main",
            output_loading_info=True,
            trust_remote_code=trust,
            use_safetensors=None if trust else True,
        )
    except torch.OutOfMemoryError:
        raise
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        _refuse_code(name, error)
        if not trust and _only_pickled(model):
            raise ModelError(
                f"the weights of {name} are pickled, and reading them may run code; save them as safetensors "
                f"(save_pretrained does), {TRUST}"
            ) from error
        raise ModelError(
            f"the weights of {name} are missing or damaged ({_reason(error)}); fetch or save them again"
        ) from error
    net: PreTrainedModel = loaded[0]
    if missing := sorted(loaded[1]["missing_keys"]):
        raise ModelError(
            f"the weights of {name} lack {len(missing)} of the model's parameters, {missing[0]} among them; "
            "fetch or save them again"
        )
    return net


def identity(name: str, trust: bool = False) -> str:
    """A text that differs for different weights of the same name."""
    model = resolve(name, trust)
    if model.commit is not None:
        return f"{model.where} {model.commit}"
    files = sorted((file.name, file.stat()) for file in Path(model.where).iterdir() if file.is_file())
    words = str([(file, stat.st_size, stat.st_mtime_ns) for file, stat in files])
    return f"{Path(model.where).resolve()} {hashlib.sha256(words.encode()).hexdigest()}"


def _refuse_code(name: str, error: Exception) -> None:
    if "trust_remote_code" in str(error):
        raise ModelError(
            f"{name} tries to run code of its own; choose a model that transformers knows, {TRUST}"
        ) from error


def _only_pickled(model: ResolvedModel) -> bool:
    """Whether all weights are pickled, by the files in its folder or on the hub."""
    if model.commit is None:
        files = [file.name for file in Path(model.where).iterdir()]
    else:
        files = HfApi().list_repo_files(model.where, revision=model.commit)
    return not fnmatch.filter(files, "*.safetensors") and any(fnmatch.filter(files, kind) for kind in PICKLED)


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
