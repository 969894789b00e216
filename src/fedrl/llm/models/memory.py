"""Whether a model fits into memory, checked before it is loaded: the needs of training against the free memory.

The network is built from its config without memory (on torch's "meta" device) and reads a short text, to measure how much
it keeps for the gradients.
"""

import warnings
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel, Qwen2Config

from fedrl.llm.models.available_memory import AvailableMemory
from fedrl.llm.models.model import Lora, Model, ModelError, gradient_checkpointing, make_trainable

PROBE = 16  # tokens of that text
COPIES = 10  # of the trained parameters during a step: theta as received, before, after, and the reference; gradient;
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
    tokens: int  # in one learning step at a time
    trust: bool = False  # whether the model may run code of its own


class Need(NamedTuple):
    """Bytes."""

    weights: int
    gradients: int
    activations: int  # kept for the gradients
    arrays: int  # named arrays: messages and the optimiser's state, always in the machine's own memory

    @property
    def near(self) -> int:
        """The part in the memory of the device on which the network runs."""
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
        sum(p.numel() * p.element_size() for p in group)
        for group in (parameters.values(), [parameters[name] for name in model.names])
    )
    arrays = COPIES * 4 * sum(parameters[name].numel() for name in model.names)
    return Need(weights, gradients, plan.tokens * _activations_of_probe(model, config) // PROBE, arrays)


def _activations_of_probe(model: Model, config: Any) -> int:
    """Bytes kept for the gradients after `PROBE` tokens; with checkpointing, one layer is computed again at a time.

    A network that cannot run on the meta device is accepted, with a warning that this part is not counted.
    """
    try:
        all_layers = _activation_bytes(model.net)
        if not model.net.is_gradient_checkpointing:
            return all_layers
        layers = (model.lora.layers if model.lora else 0) or config.num_hidden_layers
        with gradient_checkpointing(model):
            return _activation_bytes(model.net) + all_layers // layers
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"what {type(model.net).__name__} keeps for its gradients is not counted: {reason}", stacklevel=2)
        return 0


@torch.enable_grad()
def _activation_bytes(net: PreTrainedModel) -> int:
    own = {p.untyped_storage()._cdata for p in net.parameters()}
    storages: dict[int, torch.UntypedStorage] = {}  # references, so that no address is reused

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            storages[storage._cdata] = storage
        return tensor

    ids = torch.zeros(1, PROBE, dtype=torch.long, device="meta")
    mask = torch.ones(1, 1, PROBE, PROBE, dtype=torch.bool, device="meta")  # its values are never read
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        net.base_model(input_ids=ids, attention_mask=mask, position_ids=ids)
    return sum(storage.nbytes() for storage in storages.values())


def check(name: str, config: Any, plan: Plan, room: AvailableMemory, *, held: bool = False) -> None:
    """Refuse a plan that does not fit, and suggest one that does. `held`: the weights are already in memory, shared."""
    needed = need(config, plan)
    if held:
        needed = needed._replace(weights=0)
    if shortage := _shortage(needed, room):
        needs, free, where = shortage
        raise ModelError(
            f"{name} with {_describe(plan)} needs about {_gb(needs)}{where} (weights {_gb(needed.weights)}, the rest for "
            f"learning from {plan.tokens:,} tokens at once), but {_gb(free)} are free; "
            f"{_alternative(name, config, plan, room)}"
        )


def _shortage(needed: Need, room: AvailableMemory) -> tuple[int, int, str] | None:
    """Needed bytes, free bytes and which memory, for the first memory that is too small; None if all suffice."""
    if room.device is None:
        sides = [(needed.near + needed.arrays, room.host, "")]
    else:
        sides = [(needed.near, room.device, " on the GPU"), (needed.arrays, room.host, " in the machine")]
    return next(((needs, free, where) for needs, free, where in sides if free is not None and needs > free), None)


def _alternative(name: str, config: Any, plan: Plan, room: AvailableMemory) -> str:
    """The first alternative that fits: plans for this model that need ever less, then smaller models."""
    smaller_plan = plan
    alternatives: list[tuple[str, Any, Plan]] = []
    layers = min(LORA.layers, config.num_hidden_layers)
    for change in (
        {"lora": plan.lora or Lora(LORA.rank, LORA.alpha, layers)},
        {"checkpointing": True},
        {"dtype": torch.bfloat16},
    ):
        smaller_plan = smaller_plan._replace(**change)
        alternatives.append((_describe(smaller_plan), config, smaller_plan))
    small = plan._replace(lora=LORA)
    alternatives += [
        (f"{other} with {_describe(small)}", known_config, small)
        for other, known_config in SMALLER.items()
        if other != name
    ]
    for words, known_config, other_plan in alternatives:
        needed = need(known_config, other_plan)
        if other_plan != plan and not _shortage(needed, room):
            return f"{words} needs {_gb(needed.near + needed.arrays)}"
    return "free some, learn from fewer tokens at once, or use model=pocket, which needs little"


def _describe(plan: Plan) -> str:
    parameters = "LoRA" if plan.lora else "all parameters trained"
    checkpointing = ", checkpointing" if plan.checkpointing else ""
    return f"{parameters}{checkpointing} in {str(plan.dtype).removeprefix('torch.')}"


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
