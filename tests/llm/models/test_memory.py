"""What training a model needs, what is free, and what is said when it does not fit (about 15 s of CPU)."""

import json

import pytest
import torch
from support.tiny_agents import net
from transformers import LlamaConfig

from fedrl.llm.models.available_memory import AvailableMemory, available_memory, host_memory
from fedrl.llm.models.memory import COPIES, PROBE, Plan, _activations_of_probe, check, need, skeleton
from fedrl.llm.models.model import Lora, ModelError, gradient_checkpointing, make_trainable
from fedrl.llm.models.pretrained import Pretrained

GB = 10**9
WHOLE = Plan(None, torch.float32, False, 100)
ADAPTED = WHOLE._replace(lora=Lora(rank=2, layers=1))
LARGE = LlamaConfig(
    vocab_size=32_000, hidden_size=4096, intermediate_size=11_008, num_hidden_layers=6, num_attention_heads=32,
    num_key_value_heads=4,
)  # fmt: skip
HUGE = {"hidden_size": 65_536, "intermediate_size": 180_000, "num_hidden_layers": 12, "num_attention_heads": 64}


@pytest.mark.parametrize(
    "plan", [WHOLE, ADAPTED, WHOLE._replace(dtype=torch.bfloat16), ADAPTED._replace(dtype=torch.bfloat16)]
)
def test_weights_gradients_and_arrays_are_counted(plan):
    model = make_trainable(net(dtype=plan.dtype), None, plan.lora)
    parameters = dict(model.net.named_parameters())
    found = need(net().config, plan)
    assert found.weights == sum(p.nbytes for p in parameters.values())
    assert found.gradients == sum(parameters[name].nbytes for name in model.names)
    assert found.arrays == 4 * COPIES * sum(parameters[name].numel() for name in model.names)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("lora", [None, Lora(rank=2, layers=2)])
def test_activations_against_those_really_kept(lora, checkpointing):
    """Counted in a network without memory and in a real one."""
    real = make_trainable(net(), None, lora, checkpointing=checkpointing)
    own, kept = {p.data_ptr() for p in real.net.parameters()}, {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    ids = torch.ones(1, PROBE, dtype=torch.long)
    with gradient_checkpointing(real), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        hidden = real.net.base_model(input_ids=ids).last_hidden_state
    counted = sum(storage.nbytes() for storage in kept.values())
    plan = Plan(lora, torch.float32, checkpointing, 1)
    estimate = _activations_of_probe(skeleton(net().config, plan), net().config)
    assert hidden.requires_grad
    if checkpointing:
        whole = _activations_of_probe(skeleton(net().config, plan._replace(checkpointing=False)), net().config)
        assert counted < estimate < 0.8 * whole  # one of the two layers is computed again at a time
    else:
        assert estimate == pytest.approx(counted, rel=0.1)


def test_it_grows_with_what_is_read_and_shrinks_with_thrift():
    base = need(LARGE, WHOLE)
    assert need(LARGE, WHOLE._replace(tokens=200)).activations == pytest.approx(2 * base.activations, abs=2)
    assert need(LARGE, WHOLE._replace(checkpointing=True)).activations < 0.3 * base.activations
    assert need(LARGE, WHOLE._replace(dtype=torch.bfloat16)).weights == base.weights // 2
    adapted = need(LARGE, WHOLE._replace(lora=Lora(rank=8, layers=3)))
    assert adapted.arrays < 0.01 * base.arrays
    thrifty = need(LARGE, WHOLE._replace(lora=Lora(rank=8, layers=3), checkpointing=True))
    assert thrifty.activations < 0.5 * adapted.activations  # a third, and what goes into each layer


def said(plan: Plan, has: AvailableMemory, config=LARGE, **options) -> str:
    with pytest.raises(ModelError) as caught:
        check("large", config, plan, has, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_needed_what_there_is_and_what_would_fit():
    """1.3 billion parameters: 5.2 GB of weights, and eleven times as much to train them all."""
    plan = WHOLE._replace(tokens=500)
    ways = [plan, plan._replace(lora=Lora(rank=8, layers=6))]
    ways += [ways[1]._replace(checkpointing=True), ways[1]._replace(checkpointing=True, dtype=torch.bfloat16)]
    totals = [found.near + found.arrays for found in (need(LARGE, way) for way in ways)]
    assert totals == sorted(totals, reverse=True)
    check("large", LARGE, plan, AvailableMemory(totals[0], None))
    texts = [said(plan, AvailableMemory(total - 1, None)) for total in totals]
    start = f"large with all parameters trained in float32 needs about {totals[0] / GB:.1f} GB (weights 5.2 GB, "
    assert all(text.startswith(start) for text in texts)
    assert (
        f", but {totals[1] / GB:.1f} GB are free; LoRA, checkpointing in float32 needs {totals[2] / GB:.1f} GB"
        in texts[1]
    )
    assert [text.rpartition("; ")[2].rpartition(" needs ")[0] for text in texts] == [
        "LoRA in float32",
        "LoRA, checkpointing in float32",
        "LoRA, checkpointing in bfloat16",
        "Qwen/Qwen2.5-0.5B-Instruct with LoRA in float32",
    ]
    assert "; smollm2 with LoRA in float32 needs " in said(plan, AvailableMemory(GB, None))
    assert said(plan, AvailableMemory(GB // 10, None)).endswith("or use model=pocket, which needs little")


def test_weights_that_are_held_are_not_needed_again():
    plan = WHOLE._replace(lora=Lora(rank=8, layers=3))
    said(plan, AvailableMemory(3 * GB, None))
    check("large", LARGE, plan, AvailableMemory(3 * GB, None), held=True)


def test_a_device_of_its_own():
    """The network is there, named arrays and the optimiser are not."""
    plan = WHOLE._replace(tokens=2000)
    wanted = need(LARGE, plan)
    check("large", LARGE, plan, AvailableMemory(wanted.arrays, wanted.near))
    assert "on the GPU" in said(plan, AvailableMemory(1000 * GB, wanted.near - 1))
    assert "in the machine" in said(plan, AvailableMemory(wanted.arrays - 1, 1000 * GB))


def test_where_nothing_is_known_nothing_is_refused():
    check("large", LARGE, WHOLE, AvailableMemory(None, None))


def test_a_huge_model_is_refused_before_it_is_read(saved):
    """A folder with its config and no weights at all: had they been asked for, that would have been the complaint."""
    folder = saved()
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | HUGE))
    (folder / "model.safetensors").unlink()
    for lora in (Lora(layers=1), None):
        with pytest.raises(ModelError, match="needs about [0-9,.]+ GB .* but [0-9.]+ GB are free; .* needs [0-9.]+ GB"):
            Pretrained(str(folder), lora=lora, dtype="bfloat16").open()
    with pytest.raises(ModelError, match="all parameters trained .* are free"):
        Pretrained(str(folder), lora=None).first()


MEMINFO = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   16000000 kB\n"


def machine(root, cgroup: str, files: dict[str, str]) -> int | None:
    written = {"proc/meminfo": MEMINFO, "proc/self/cgroup": cgroup, **files}
    for name, text in written.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return host_memory(root)


def test_free_memory_of_a_machine(tmp_path):
    assert machine(tmp_path, "0::/\n", {}) == 16_000_000 * 1024


def test_free_memory_of_control_groups(tmp_path):
    """The narrowest of a group and its parents counts; files it has only read are no use of it."""
    two = {
        "sys/fs/cgroup/a/b/memory.max": "max\n",
        "sys/fs/cgroup/a/b/memory.current": "100\n",
        "sys/fs/cgroup/a/memory.max": "5000\n",
        "sys/fs/cgroup/a/memory.current": "3000\n",
        "sys/fs/cgroup/a/memory.stat": "anon 2000\ninactive_file 600\n",
    }
    assert machine(tmp_path / "v2", "0::/a/b\n", two) == 2600
    one = {
        "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "7000\n",
        "sys/fs/cgroup/memory/c/memory.usage_in_bytes": "6000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "8000\n",
    }
    assert machine(tmp_path / "v1", "5:cpu:/\n4:blkio,memory:/c\n0::/\n", one) == 1000
    over = {**one, "sys/fs/cgroup/memory/c/memory.usage_in_bytes": "7001\n"}
    assert machine(tmp_path / "over", "4:memory:/c\n", over) == 0


def test_free_memory_here():
    found = available_memory("cpu")
    assert found.device is None
    assert found.host is not None
    assert found.host > 10**7
