"""Pretrained models in folders: precision, checkpointing, shared weights, and where training starts (about 15 s of CPU)."""

import jax
import numpy as np
import pytest
import torch
from support.tiny_agents import COLOURS_ENVIRONMENT, Colours, as_jax, uniform
from transformers import LlamaConfig, LlamaForCausalLM

from fedrl.llm.episodes import Acting, play
from fedrl.llm.likelihood import likelihood
from fedrl.llm.models import weights_cache
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.model import (
    Lora,
    gradient_checkpointing,
    gradients,
    load_theta,
    make_trainable,
    reference_parameters,
    theta_of,
)
from fedrl.llm.models.pretrained import Pretrained, best_dtype
from fedrl.llm.optimization import adamw, descend

IDS = torch.tensor([[4, 9, 7, 8, 5, 6]])
SMALL_LORA = Lora(rank=2, alpha=4)


def spec(folder, **options) -> Pretrained:
    return Pretrained(str(folder), **({"lora": SMALL_LORA, "threads": 1} | options))


def loss_of(model) -> torch.Tensor:
    return model.net(input_ids=IDS, labels=IDS).loss


def moved(model, by: float = 0.05):
    """Somewhere else, the same whatever the model: no gradient is zero by chance."""
    draw = np.random.default_rng(0)
    return {
        name: (value + by * draw.normal(size=value.shape)).astype(np.float32) for name, value in theta_of(model).items()
    }


@pytest.mark.parametrize("lora", [None, SMALL_LORA])
def test_bfloat16_computes_and_single_precision_travels(saved, lora):
    model = open_model(spec(saved(), lora=lora, dtype="bfloat16"))
    assert {p.dtype for name, p in model.net.named_parameters() if "lora" not in name} == {torch.bfloat16}
    assert {p.dtype for name, p in model.net.named_parameters() if "lora" in name} <= {torch.float32}
    theta = as_jax(moved(model))
    assert {value.dtype for value in theta.values()} == {np.dtype(np.float32)}
    optimizer = adamw(1e-6)
    state = optimizer.init(theta)
    after, _, value = descend(model, theta, state, optimizer, lambda: loss_of(model))
    assert np.isfinite(value)
    assert any(not np.array_equal(after[name], theta[name]) for name in theta)  # a step too small for bfloat16 counts
    found = play(model, spec(saved()).formatter(), Colours, [0, 1], 2, uniform(0, 4), Acting())
    assert all(episode.turns for episode in found)


def test_precision_by_name(saved):
    folder = saved()
    for dtype, wanted in (("auto", best_dtype()), ("float32", torch.float32)):
        assert open_model(spec(folder, dtype=dtype)).net.dtype == wanted
    with pytest.raises(ValueError, match="dtype is one of auto, float32, bfloat16, got 'float8'"):
        spec(folder, dtype="float8")
    with pytest.raises(ValueError, match="tokens must be a finite number at least 1, got 0"):
        spec(folder, tokens=0)


def dropping(**changes) -> LlamaForCausalLM:
    """A Llama that was trained with dropout."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=24, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, pad_token_id=0,
        attention_dropout=0.5,
    )  # fmt: skip
    return LlamaForCausalLM(config)


@pytest.mark.parametrize("lora", [None, SMALL_LORA, Lora(rank=2, layers=1, freeze_a=True)])
def test_checkpointing_changes_no_number(lora):
    """And computes the layers that are trained twice; what the model's config says of dropout stays asleep."""
    seen = {}
    for checkpointing in (False, True):
        model = make_trainable(dropping(), None, lora, checkpointing=checkpointing)
        load_theta(model, moved(model))
        calls = []
        for layer in model.net.model.layers:
            layer.mlp.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        reached = []
        for layer in model.net.model.layers:
            layer.register_forward_hook(lambda _, __, out, reached=reached: reached.append(out.requires_grad))
        with gradient_checkpointing(model):
            loss = loss_of(model)
            loss.backward()
        assert sum(reached[:3]) == ((lora.layers if lora else 0) or 3)  # no gradient goes through layers below
        seen[checkpointing] = float(loss.detach()), gradients(model), len(calls)
        assert not any(module.training for module in model.net.modules())
    (plain, by_plain, once), (again, by_again, twice) = seen[False], seen[True]
    assert again == pytest.approx(plain, abs=1e-6)
    assert any(value.any() for value in by_plain.values())
    for name, value in by_plain.items():
        np.testing.assert_allclose(by_again[name], value, atol=1e-6, rtol=0)
    assert (once, twice) == (3, 3 + ((lora.layers if lora else 0) or 3))
    with torch.no_grad():
        awake = dropping().train()(input_ids=IDS, labels=IDS).loss
        asleep = dropping().eval()(input_ids=IDS, labels=IDS).loss
    assert float(awake) != pytest.approx(float(asleep), abs=1e-3)


def test_checkpointing_descends_alike(saved):
    folder = saved(attention_dropout=0.5)
    after = []
    for checkpointing in (False, True):
        model = open_model(spec(folder, checkpointing=checkpointing))
        theta = as_jax(moved(model))
        optimizer = adamw(1e-2)
        after.append(descend(model, theta, optimizer.init(theta), optimizer, lambda model=model: loss_of(model))[0])
    assert all(np.allclose(after[0][name], after[1][name], atol=1e-6) for name in after[0])


def pointers(model) -> list[int]:
    return [p.data_ptr() for name, p in model.net.named_parameters() if "lora" not in name]


def test_adapters_share_their_base(saved):
    """Whatever the rank, the words of the system and the layers: the weights are in memory once."""
    folder = saved()
    specs = [spec(folder), spec(folder, system="Be good."), spec(folder, lora=Lora(rank=4, layers=1))]
    models = [open_model(one) for one in specs]
    assert len({tuple(pointers(model)) for model in models}) == 1
    a, b, _ = (dict(model.net.named_parameters()) for model in models)
    assert all(a[name].data_ptr() != b[name].data_ptr() for name in models[0].names)
    before = loss_of(models[1]).detach()
    load_theta(models[0], moved(models[0]))
    assert torch.equal(loss_of(models[1]), before)
    assert len(weights_cache._nets) == 1


def test_all_parameters_are_read_once(saved):
    """Two specs that differ in their words train the same memory; what came is kept beside it, as it was."""
    folder = saved()
    one, two = spec(folder, lora=None), spec(folder, lora=None, system="Be good.", checkpointing=True)
    frozen, first = open_model(spec(folder)), one.first()
    model, other = open_model(one), open_model(two)
    assert pointers(model) == pointers(other)
    assert not set(pointers(model)) & set(pointers(frozen))
    assert len(weights_cache._nets) == 2
    came = {name: value.copy() for name, value in first.items()}
    load_theta(model, moved(model))
    assert two.first() is first
    assert all(np.array_equal(first[name], came[name]) for name in came)
    assert all(
        np.array_equal(dict(frozen.net.named_parameters())[name].detach(), came[name]) for name in frozen_names(frozen)
    )
    after = loss_of(model).detach()
    with reference_parameters(model, first):
        assert torch.equal(loss_of(model), loss_of(open_model(spec(folder))))
    assert torch.equal(loss_of(model), after)


def frozen_names(model) -> list[str]:
    return [name for name, _ in model.net.named_parameters() if "lora" not in name and "base_layer" not in name]


def test_what_came_is_not_read_again_after_opening(saved):
    folder = saved()
    one = spec(folder, lora=None)
    model = open_model(one)
    came = theta_of(model)
    load_theta(model, moved(model))
    (folder / "model.safetensors").unlink()
    assert all(np.array_equal(value, came[name]) for name, value in one.first().items())


def test_what_came_is_read_without_keeping_the_network(saved):
    one = spec(saved(), lora=None)
    first = one.first()
    assert not weights_cache._nets
    assert set(one.init(jax.random.key(0))) == set(first) == set(open_model(one).names)


@pytest.mark.parametrize("freeze_a", [False, True])
def test_where_adapters_start(saved, freeze_a):
    """At zero; A is drawn by the key. No weights are read for it: the server may have none."""
    folder = saved()
    one = spec(folder, lora=Lora(rank=2, freeze_a=freeze_a))
    assert one.first() is None
    (folder / "model.safetensors").rename(folder / "elsewhere")
    a, b, other = (one.init(jax.random.key(seed)) for seed in (0, 0, 1))
    (folder / "elsewhere").rename(folder / "model.safetensors")
    model = open_model(one)
    assert tuple(a) == model.names
    assert {name: value.shape for name, value in a.items()} == {n: v.shape for n, v in theta_of(model).items()}
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert all(bool(np.any(value)) == ("lora_A" in name) for name, value in a.items())
    assert any("lora_A" in name for name in a) != freeze_a
    assert freeze_a or any(not np.array_equal(a[name], other[name]) for name in a)
    before = loss_of(model).detach()
    load_theta(model, a)
    assert torch.equal(loss_of(model), before)


def test_episodes_are_told_by_its_template(saved):
    one = spec(saved(), system="find")
    formatter = one.formatter()
    assert formatter.tokenizer.decode(formatter.first("take the ball", ["wait"])).startswith(
        "<world> find <world> take the ball"
    )
    short = spec(saved(), system="find", shows_commands=False).formatter()
    assert len(short.first("take the ball", ["wait"])) < len(formatter.first("take the ball", ["wait"]))
    model = open_model(one)
    (episode,) = play(model, formatter, COLOURS_ENVIRONMENT.make, [0], 1, uniform(0, 1), Acting(temperature=0.0))
    (sample,) = episode.samples()
    assert likelihood(model, [sample]).log_prob.detach().tolist() == pytest.approx(
        [d.log_prob for _, d in episode.decisions], abs=1e-4
    )
