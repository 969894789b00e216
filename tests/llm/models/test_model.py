"""What of a model is trained: names, arrays in and out, adapters, and the model as it came."""

import numpy as np
import pytest
import torch
from support.tiny_agents import Tiny, net, tiny, tokenizer

from fedrl.llm.models.loading import open_model
from fedrl.llm.models.model import Lora, gradients, load_theta, make_trainable, reference_parameters, theta_of

torch.set_num_threads(1)
LORA = Lora(rank=2, alpha=4)
IDS = torch.tensor([[4, 9, 7, 8]])


def logits(model) -> torch.Tensor:
    return model.net(input_ids=IDS).logits


@pytest.mark.parametrize("lora", [None, LORA, Lora(rank=2, layers=1)])
def test_round_trip(lora):
    model = tiny(lora=lora)
    theta = {name: value + 0.01 for name, value in theta_of(model).items()}
    before = logits(model).detach()
    load_theta(model, theta)
    assert {name: value.tobytes() for name, value in theta_of(model).items()} == {
        name: value.tobytes() for name, value in theta.items()
    }
    assert not torch.equal(logits(model), before)
    fresh = tiny(lora=lora)
    load_theta(fresh, theta)
    assert torch.equal(logits(fresh), logits(model))


def test_theta_is_a_copy():
    model = tiny()
    theta = theta_of(model)
    load_theta(model, {name: value + 1.0 for name, value in theta.items()})
    assert all(np.array_equal(theta_of(model)[name], value + 1.0) for name, value in theta.items())


def test_all_parameters_without_adapters():
    model = tiny()
    assert model.names == tuple(name for name, _ in model.net.named_parameters())
    assert sum(value.size for value in theta_of(model).values()) == sum(p.numel() for p in model.net.parameters())


@pytest.mark.parametrize(("layers", "has"), [(0, {0, 1}), (1, {1}), (2, {0, 1})])
def test_adapters_are_on_the_last_layers_only(layers, has):
    model = tiny(lora=Lora(rank=2, layers=layers))
    assert {int(name.split("layers.")[1].split(".")[0]) for name in model.names} == has
    assert len(model.names) == len(has) * 7 * 2  # q, k, v, o, gate, up, down; two factors each
    assert all("lora_A" in name or "lora_B" in name for name in model.names)
    assert {name for name, p in model.net.named_parameters() if p.requires_grad} == set(model.names)
    logits(model).sum().backward()
    found = gradients(model)
    assert set(found) == set(model.names)
    assert any(value.any() for name, value in found.items() if "lora_B" in name)
    assert all(p.grad is None for name, p in model.net.named_parameters() if name not in model.names)


@pytest.mark.parametrize(("rank", "alpha", "scale"), [(2, 4, 2.0), (2, 6, 3.0), (4, 4, 1.0)])
def test_adapters_add_alpha_over_rank_times_their_product(rank, alpha, scale):
    """W x + (alpha / rank) B A x (Hu et al. 2022, §4.1), on one linear map with factors of our own."""
    model = tiny(lora=Lora(rank=rank, alpha=alpha))
    random = np.random.default_rng(0)
    load_theta(model, {n: random.normal(size=v.shape).astype(np.float32) for n, v in theta_of(model).items()})
    name = next(n for n in model.names if "q_proj.lora_A" in n)
    theta, layer = theta_of(model), model.net.get_submodule(name.partition(".lora_A")[0])
    x = random.normal(size=(5, layer.in_features)).astype(np.float32)
    A, B, W = theta[name], theta[name.replace("lora_A", "lora_B")], layer.base_layer.weight.detach().numpy()
    found = layer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, x @ W.T + scale * (x @ A.T @ B.T), rtol=1e-4, atol=1e-4)


def test_new_adapters_change_nothing_and_are_always_the_same():
    plain, model = tiny(), tiny(lora=LORA)
    assert torch.equal(logits(model), logits(plain))
    torch.manual_seed(5)
    state = torch.get_rng_state()
    again = theta_of(tiny(lora=LORA))
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's draws
    assert all(np.array_equal(value, again[name]) for name, value in theta_of(model).items())


def test_more_layers_than_there_are():
    with pytest.raises(ValueError, match="from 1 to 2, the model's layers"):
        make_trainable(net(), tokenizer(), Lora(layers=3))


def test_gradients_that_nothing_reached_are_zero():
    model = tiny()
    assert all(not value.any() and value.dtype == np.float32 for value in gradients(model).values())


@pytest.mark.parametrize("lora", [None, LORA])
def test_as_it_came_and_back(lora):
    model = tiny(lora=lora)
    first, before = theta_of(model), logits(model).detach()
    moved = {name: value + 0.1 for name, value in first.items()}
    load_theta(model, moved)
    after = logits(model).detach()
    learnable = [(name, p.requires_grad) for name, p in model.net.named_parameters()]

    def fails() -> None:
        with reference_parameters(model, first):
            assert torch.equal(logits(model), before)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.equal(logits(model), after)
    assert [(name, p.requires_grad) for name, p in model.net.named_parameters()] == learnable
    assert all(np.array_equal(value, moved[name]) for name, value in theta_of(model).items())


def test_opened_once_and_always_with_its_threads():
    spec = Tiny(seed=3)
    model = open_model(spec)
    torch.set_num_threads(2)
    assert open_model(Tiny(seed=3)) is model
    assert torch.get_num_threads() == 1


def test_as_it_came_without_parameters_is_without_adapters():
    model = tiny(lora=LORA)
    before = logits(model).detach()
    load_theta(model, {name: value + 0.1 for name, value in theta_of(model).items()})
    with reference_parameters(model, None):
        assert torch.equal(logits(model), before)
    assert not torch.equal(logits(model), before)
    with (
        pytest.raises(ValueError, match="as it came only with the parameters it had"),
        reference_parameters(tiny(), None),
    ):
        pass


def test_adapters_start_where_they_are_told_to():
    """Also with adapters, what the model came with may be other than none."""
    model = tiny(lora=LORA)
    first = {name: value + 0.05 for name, value in theta_of(model).items()}
    load_theta(model, first)
    before = logits(model).detach()
    load_theta(model, {name: value - 0.1 for name, value in first.items()})
    kept = {name: value.copy() for name, value in first.items()}
    with reference_parameters(model, first):
        assert torch.equal(logits(model), before)
    assert not torch.equal(logits(model), before)
    assert all(np.array_equal(first[name], kept[name]) for name in first)


def test_adapters_are_in_single_precision():
    model = tiny(lora=LORA, dtype=torch.bfloat16)
    parameters = dict(model.net.named_parameters())
    assert {parameters[name].dtype for name in model.names} == {torch.float32}
    assert {p.dtype for name, p in parameters.items() if name not in model.names} == {torch.bfloat16}
    load_theta(model, {name: value + 1e-5 for name, value in theta_of(model).items()})
    assert logits(model).dtype == torch.bfloat16


def test_frozen_A():
    model, again = (tiny(lora=Lora(rank=2, freeze_a=True)) for _ in range(2))
    assert all("lora_B" in name for name in model.names)
    with reference_parameters(model, None):
        pass
    assert {name for name, p in model.net.named_parameters() if p.requires_grad} == set(model.names)
    other = dict(again.net.named_parameters())
    assert all(torch.equal(p, other[name]) for name, p in model.net.named_parameters())
    assert any("lora_A" in name and p.any() for name, p in model.net.named_parameters())
