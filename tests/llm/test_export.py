"""A trained agent leaves as an adapter or as a whole model, and comes back as an adapter: with the same logits."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import PeftModel
from support.tiny_agents import Tiny, net, tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from fedrl.export.check import ExportError
from fedrl.llm import export as exporting
from fedrl.llm.export import export
from fedrl.llm.models import smollm2, weights_cache
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.model import Lora, ModelError, load_theta, theta_of
from fedrl.llm.models.pretrained import Pretrained

IDS = torch.tensor([[4, 9, 7, 8, 5, 6]])


def moved(spec):
    """Parameters as training might leave them: also B is not zero."""
    draw = np.random.default_rng(0)
    return {
        name: (value + 0.05 * draw.normal(size=value.shape)).astype(np.float32)
        for name, value in theta_of(open_model(spec)).items()
    }


@torch.no_grad()
def logits(model, ids=IDS) -> np.ndarray:
    return model(input_ids=ids).logits.float().numpy()


def trained_logits(spec, theta, ids=IDS) -> np.ndarray:
    model = open_model(spec)
    load_theta(model, theta)
    return logits(model.net, ids)


@pytest.mark.parametrize("lora", [Lora(rank=2, alpha=4), Lora(rank=2, alpha=8, layers=1, freeze_a=True)])
def test_peft_reads_the_adapter(lora, tmp_path):
    spec = Tiny(lora)
    theta = moved(spec)
    report = export(spec, theta, tmp_path / "adapter", "peft")
    assert report.difference == 0.0
    names = {file.name for file in (tmp_path / "adapter").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    there = PeftModel.from_pretrained(net(), str(tmp_path / "adapter")).eval()
    np.testing.assert_array_equal(logits(there), trained_logits(spec, theta))
    assert np.abs(logits(net()) - logits(there)).max() > 1e-3
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["task_type"]) == (lora.rank, lora.alpha, "CAUSAL_LM")
    assert "default" not in config["target_modules"]
    assert AutoTokenizer.from_pretrained(tmp_path / "adapter").get_vocab() == tokenizer().get_vocab()


@pytest.mark.parametrize("lora", [None, Lora(rank=2, alpha=4)])
def test_a_merged_model_is_one_of_hugging_face(lora, tmp_path):
    spec = Tiny(lora)
    theta = moved(spec)
    before = trained_logits(spec, theta)
    report = export(spec, theta, tmp_path / "whole", "merged")
    assert report.difference <= 1e-4 * report.largest
    there = AutoModelForCausalLM.from_pretrained(tmp_path / "whole").eval()
    assert not any("lora" in name for name, _ in there.named_parameters())
    assert there.config.use_cache
    np.testing.assert_allclose(logits(there), before, atol=1e-4)
    np.testing.assert_array_equal(trained_logits(spec, theta), before)  # the model in use was not merged


def test_bfloat16(tmp_path):
    """An adapter loses nothing; a merged weight is the sum of weight and adapter, rounded once."""
    spec = Pretrained(folder_of_base(tmp_path), Lora(rank=2, alpha=4), threads=1, dtype="bfloat16")
    theta = moved(spec)
    assert export(spec, theta, tmp_path / "adapter", "peft").difference == 0.0
    there = PeftModel.from_pretrained(net(dtype=torch.bfloat16), str(tmp_path / "adapter"))
    for name, value in theta.items():
        np.testing.assert_array_equal(there.get_parameter(f"base_model.model.{name}").detach(), value)
    report = export(spec, theta, tmp_path / "whole", "merged")
    there = AutoModelForCausalLM.from_pretrained(tmp_path / "whole").eval()
    assert there.dtype == torch.bfloat16
    for name, weight in net(dtype=torch.bfloat16).named_parameters():
        layer = name.removesuffix(".weight")
        if f"{layer}.lora_A.default.weight" in theta:
            a, b = (torch.from_numpy(theta[f"{layer}.lora_{factor}.default.weight"]) for factor in "AB")
            weight = (weight.float() + 4 / 2 * b @ a).bfloat16()
        assert torch.equal(there.get_parameter(name), weight), name
    exact = trained_logits(replace(spec, dtype="float32"), theta)
    rounding = np.abs(trained_logits(spec, theta) - exact).max()  # of the trained model itself
    assert 0 < report.difference <= 0.05 * report.largest
    assert np.abs(logits(there) - exact).max() <= 2 * rounding


def test_what_cannot_be_exported(tmp_path, monkeypatch):
    spec = Tiny()
    theta = theta_of(spec.open())
    with pytest.raises(ModelError, match="has no adapter; export it as 'merged'"):
        export(spec, theta, tmp_path / "adapter", "peft")
    assert not (tmp_path / "adapter").exists()
    with pytest.raises(ExportError, match="peft or merged, got 'onnx'"):
        export(spec, theta, tmp_path / "adapter", "onnx")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(ExportError, match="holds something already; pass a new folder"):
        export(spec, theta, tmp_path / "full", "merged")
    with pytest.raises(ExportError, match="cannot write to"):
        export(spec, theta, tmp_path / "full" / "file" / "below", "merged")
    monkeypatch.setattr(exporting, "without_adapters", lambda model, merge: net(seed=1))  # another model
    with pytest.raises(ExportError, match="differ from the model's by .*was removed; please report it"):
        export(spec, theta, tmp_path / "wrong", "merged")
    half = Pretrained(folder_of_base(tmp_path), Lora(rank=2, alpha=4), threads=1, dtype="bfloat16")
    with pytest.raises(ExportError, match="bfloat16 rounds such adapters too coarsely: export them as 'peft'"):
        export(half, moved(half), tmp_path / "wrong", "merged")
    assert not (tmp_path / "wrong").exists()


def folder_of_base(tmp_path):
    net().save_pretrained(tmp_path / "base")
    words = tokenizer()
    words.chat_template = "{% for m in messages %}<world> {{ m['content'] }} {% endfor %}"
    words.save_pretrained(tmp_path / "base")
    return str(tmp_path / "base")


@pytest.mark.parametrize("freeze_a", [False, True])
def test_training_starts_from_an_adapter(freeze_a, tmp_path):
    lora = Lora(rank=2, alpha=4, layers=1, freeze_a=freeze_a)
    base = folder_of_base(tmp_path)
    first = Tiny(Lora(rank=2, alpha=4, layers=1))
    theta = moved(first)
    export(first, theta, tmp_path / "adapter", "peft")
    spec = Pretrained(base, lora, threads=1, dtype="float32", adapter=str(tmp_path / "adapter"))
    theta_0 = {name: np.asarray(value) for name, value in spec.init(None).items()}
    assert list(theta_0) == list(open_model(spec).names)
    np.testing.assert_array_equal(trained_logits(spec, theta_0), trained_logits(first, theta))
    for name, value in spec.first().items():  # the KL term holds training to it
        np.testing.assert_array_equal(value, theta_0[name])


def test_adapters_that_do_not_fit(tmp_path):
    base = folder_of_base(tmp_path)
    first = Tiny(Lora(rank=2, alpha=4))
    export(first, moved(first), tmp_path / "adapter", "peft")

    def start(lora, folder="adapter"):
        return Pretrained(base, lora, threads=1, dtype="float32", adapter=str(tmp_path / folder)).first()

    with pytest.raises(ModelError, match="has rank 2 and alpha 4, training 4 and 4; give lora=Lora.rank=2, alpha=4"):
        start(Lora(rank=4, alpha=4))
    with pytest.raises(ModelError, match="does not fit the model's adapters: 14 of their arrays differ"):
        start(Lora(rank=2, alpha=4, layers=1))
    with pytest.raises(ModelError, match="is no adapter of peft"):
        start(Lora(rank=2, alpha=4), "base")
    with pytest.raises(ValueError, match="which excludes lora=None"):
        start(None)
    config = tmp_path / "adapter" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"use_dora": True}))
    with pytest.raises(ModelError, match="uses use_dora, expected plain LoRA"):
        start(Lora(rank=2, alpha=4))


@pytest.mark.slow
def test_smollm2(tmp_path):
    """The real model, both ways; about a minute."""
    try:
        base = AutoModelForCausalLM.from_pretrained(smollm2.folder(), dtype=torch.float32)
    except ModelError as error:
        pytest.skip(str(error))
    spec = Pretrained("smollm2", Lora(rank=4, alpha=8, layers=2), threads=2, dtype="float32")
    theta = moved(spec)
    ids = torch.arange(100, 132)[None]
    wanted = trained_logits(spec, theta, ids)
    assert export(spec, theta, tmp_path / "adapter", "peft").difference == 0.0
    assert np.abs(logits(base.eval(), ids) - wanted).max() > 1e-2
    there = PeftModel.from_pretrained(base, str(tmp_path / "adapter")).eval()
    np.testing.assert_allclose(logits(there, ids), wanted, atol=1e-4)
    report = export(spec, theta, tmp_path / "whole", "merged")
    assert report.difference <= 1e-4 * report.largest
    again = Pretrained(
        "smollm2", Lora(rank=4, alpha=8, layers=2), threads=2, dtype="float32", adapter=str(tmp_path / "adapter")
    )
    start = {name: np.asarray(value) for name, value in again.init(None).items()}
    np.testing.assert_array_equal(trained_logits(again, start, ids), wanted)
    weights_cache._nets.clear()
