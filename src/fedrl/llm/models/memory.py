"""Whether a model fits, asked before it is read: what training it will hold, against what is free.

The network is built without memory (torch's "meta" device) from its config, and read with it is a short text, to learn how
much of what it computes is kept for the gradients.
"""

import warnings
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel, Qwen2Config

from fedrl.llm.models.available_memory import AvailableMemory
from fedrl.llm.models.model import Lora, Model, ModelError, gradient_checkpointing, make_trainable

PROBE = 16  # tokens of that text
COPIES = 10  # of what is trained, while a step is made: theta as sent, before and after, and as it came; gradient;
#              update; both of Adam's moments, before and after
LORA = Lora(rank=8, alpha=16, layers=12)
SMALLER: dict[str, Any] = {  # models to fall back on, largest first
    "Qwen/Qwen2.5-0.5B-Instruct": Qwen2Config(
        vocab_size=151_936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, tie_word_embeddings=True,
    ),
    "smollm2": LlamaConfig(
        vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, tie_word_embeddings=True,
    ),
}  # fmt: skip


class Plan(NamedTuple):
    """How a model is to be trained."""

    lora: Lora | None
    dtype: torch.dtype
    checkpointing: bool
    tokens: int  # learnt from at once
    trust: bool = False  # may the model bring code of its own?


class Need(NamedTuple):
    """Bytes."""

    weights: int
    gradients: int
    activations: int  # kept for the gradients
    arrays: int  # named arrays: what travels, and the optimiser's; always in the machine's own memory

    @property
    def near(self) -> int:
        """Where the network computes."""
        return self.weights + self.gradients + self.activations


def skeleton(config: Any, plan: Plan) -> Model:
    """The model without its weights: names and shapes only, and no tokenizer."""
    with torch.device("meta"):
        net = AutoModelForCausalLM.from_config(config, dtype=plan.dtype, trust_remote_code=plan.trust)
    return make_trainable(net, None, plan.lora, checkpointing=plan.checkpointing)


def need(config: Any, plan: Plan) -> Need:
    model = skeleton(config, plan)
    parameters = dict(model.net.named_parameters())
    weights, gradients = (
        sum(p.numel() * p.element_size() for p in some)
        for some in (parameters.values(), [parameters[name] for name in model.names])
    )
    arrays = COPIES * 4 * sum(parameters[name].numel() for name in model.names)
    return Need(weights, gradients, plan.tokens * _kept_each(model, config) // PROBE, arrays)


def _kept_each(model: Model, config: Any) -> int:
    """Bytes kept for the gradients after `PROBE` tokens; with checkpointing, one layer is computed again at a time.

    A network that cannot be read without its memory is let through, with a warning that this part is not counted.
    """
    try:
        whole = _kept(model.net)
        if not model.net.is_gradient_checkpointing:
            return whole
        layers = (model.lora.layers if model.lora else 0) or config.num_hidden_layers
        with gradient_checkpointing(model):
            return _kept(model.net) + whole // layers
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"what {type(model.net).__name__} keeps for its gradients is not counted: {reason}", stacklevel=2)
        return 0


@torch.enable_grad()
def _kept(net: PreTrainedModel) -> int:
    own = {p.untyped_storage()._cdata for p in net.parameters()}
    seen: dict[int, torch.UntypedStorage] = {}  # storages, kept so that no two have one address

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            seen[storage._cdata] = storage
        return tensor

    ids = torch.zeros(1, PROBE, dtype=torch.long, device="meta")
    everything = torch.ones(
        1, 1, PROBE, PROBE, dtype=torch.bool, device="meta"
    )  # a whole mask, which nobody looks into
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        net.base_model(input_ids=ids, attention_mask=everything, position_ids=ids)
    return sum(storage.nbytes() for storage in seen.values())


def check(name: str, config: Any, plan: Plan, room: AvailableMemory, *, held: bool = False) -> None:
    """Refuse what does not fit, and say what would. `held`: the weights are in memory already, for others to share."""
    wanted = need(config, plan)
    if held:
        wanted = wanted._replace(weights=0)
    if short := _short(wanted, room):
        needs, has, where = short
        raise ModelError(
            f"{name} with {_in_words(plan)} needs about {_gb(needs)}{where} (weights {_gb(wanted.weights)}, the rest for "
            f"learning from {plan.tokens:,} tokens at once), but {_gb(has)} are free; {_instead(name, config, plan, room)}"
        )


def _short(wanted: Need, room: AvailableMemory) -> tuple[int, int, str] | None:
    """What is needed and there is, where it is not enough, and of which memory."""
    if room.device is None:
        sides = [(wanted.near + wanted.arrays, room.host, "")]
    else:
        sides = [(wanted.near, room.device, " on the GPU"), (wanted.arrays, room.host, " in the machine")]
    return next(((needs, has, where) for needs, has, where in sides if has is not None and needs > has), None)


def _instead(name: str, config: Any, plan: Plan, room: AvailableMemory) -> str:
    """The first that fits: ever thriftier ways with this model, then smaller ones."""
    thrifty = plan
    tries: list[tuple[str, Any, Plan]] = []
    layers = min(LORA.layers, config.num_hidden_layers)
    for change in (
        {"lora": plan.lora or Lora(LORA.rank, LORA.alpha, layers)},
        {"checkpointing": True},
        {"dtype": torch.bfloat16},
    ):
        thrifty = thrifty._replace(**change)
        tries.append((_in_words(thrifty), config, thrifty))
    small = plan._replace(lora=LORA)
    tries += [(f"{other} with {_in_words(small)}", known, small) for other, known in SMALLER.items() if other != name]
    for words, known, way in tries:
        wanted = need(known, way)
        if way != plan and not _short(wanted, room):
            return f"{words} needs {_gb(wanted.near + wanted.arrays)}"
    return "free some, learn from fewer tokens at once, or use model=pocket, which needs little"


def _in_words(plan: Plan) -> str:
    what = "LoRA" if plan.lora else "all parameters trained"
    more = ", checkpointing" if plan.checkpointing else ""
    return f"{what}{more} in {str(plan.dtype).removeprefix('torch.')}"


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
