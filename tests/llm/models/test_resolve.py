"""Models that cannot be had: one sentence each, with the next move (about 10 s of CPU)."""

import json

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

from fedrl.llm.models.model import Lora, ModelError
from fedrl.llm.models.pretrained import Pretrained
from fedrl.llm.models.resolve import identity, read_weights, resolve, tokenizer_of

WEIGHTS = "model.safetensors"


def refused(name, match: str) -> None:
    with pytest.raises(ModelError, match=match) as caught:
        Pretrained(str(name), lora=Lora(rank=2)).open()
    assert "\n" not in str(caught.value)


def test_a_whole_one(saved):
    folder = str(saved())
    assert read_weights(folder, torch.float32, "cpu").config.num_hidden_layers == 2
    assert tokenizer_of(folder).chat_template


def test_no_folder():
    refused("/no/such/folder", "there is no folder /no/such/folder; give the folder of a saved model")
    refused("~/no such folder", "there is no folder ~/no such folder; give the folder")
    refused("models/of/mine", "there is no folder models/of/mine, and no model on the hub can be called so")


def test_the_hub_cannot_be_reached(monkeypatch, tmp_path, caplog):
    """As it is on a machine without a network: at once, without half a minute of trying again."""
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    refused(
        "Qwen/Qwen2.5-9B-Nobody", "and the hub, where it may be, cannot be reached .*; fetch it .* and give its folder"
    )
    assert "Retrying" not in caplog.text


def test_what_was_fetched_before_needs_no_hub(saved, tmp_path, monkeypatch, caplog):
    """A snapshot in the hub's own cache, and no network."""
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    place = tmp_path / "hub" / "models--tiny--llama"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    (place / "snapshots").mkdir()
    saved().rename(place / "snapshots" / ("0" * 40))
    assert Pretrained("tiny/llama", lora=None).open().net.config.num_hidden_layers == 2
    assert "Retrying" not in caplog.text


def test_no_config(tmp_path):
    refused(tmp_path, "has no config.json; give one that save_pretrained has written")


@pytest.mark.parametrize(
    ("text", "match"),
    [("{oops", "not a valid JSON"), ('{"model_type": "wonder"}', "does not recognize"), ("{}", "model_type")],
)
def test_a_config_that_says_nothing(tmp_path, text, match):
    (tmp_path / "config.json").write_text(text)
    refused(tmp_path, f"the config.json of .* cannot be used .*{match}.*; get it anew")


def test_no_causal_model(tmp_path):
    BertModel(
        BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    ).save_pretrained(tmp_path)
    refused(tmp_path, "is BertModel, expected a causal language model")


def test_no_tokenizer(saved):
    folder = saved()
    for file in folder.glob("tokenizer*"):
        file.unlink()
    refused(folder, "has no tokenizer that can be read .*; put the tokenizer.json and tokenizer_config.json")


def test_no_chat_template(saved):
    refused(saved(chat=None), "has no chat template, so it is no instruct model; choose one that is")


def test_the_tokenizer_of_another(saved):
    folder = saved()
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_size": 7}))
    refused(folder, "knows 24 tokens, its model 7; put the tokenizer it was trained with beside it")


@pytest.mark.parametrize("left", [None, b"", b"version https://git-lfs.github.com/spec/v1\n", 0.5, 0.01])
def test_weights_missing_or_cut(saved, left):
    file = saved() / WEIGHTS
    whole = file.read_bytes()
    file.unlink()
    if left is not None:
        file.write_bytes(left if isinstance(left, bytes) else whole[: int(left * len(whole))])
    refused(file.parent, "the weights of .* are missing or damaged .*; fetch or save them again")


def test_a_shard_is_missing(saved):
    folder = saved(shards="20KB")
    parts = sorted(folder.glob("model-*.safetensors"))
    assert len(parts) > 2
    parts[1].unlink()
    refused(folder, "the weights of .* are missing or damaged .*00002.*; fetch or save them again")


def test_weights_that_lack_a_parameter(saved):
    """transformers would make it up."""
    file = saved() / WEIGHTS
    tensors = load_file(file)
    gone = "model.layers.1.mlp.up_proj.weight"
    save_file({name: value for name, value in tensors.items() if name != gone}, file, metadata={"format": "pt"})
    refused(file.parent, f"lack 1 of the model's parameters, {gone} among them; fetch or save them again")
    save_file(tensors | {gone: tensors[gone][:5].clone()}, file, metadata={"format": "pt"})
    refused(file.parent, "the weights of .* are missing or damaged")


def test_dropout_is_left_out(saved):
    config = resolve(str(saved(attention_dropout=0.5))).config
    assert config.attention_dropout == 0.0


def test_pickled_weights_are_read_only_on_request(saved):
    folder = saved()
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    whole = read_weights(str(folder), torch.float32, "cpu").state_dict()
    (folder / WEIGHTS).unlink()
    refused(folder, r"the weights of .* are pickled, .* save them as safetensors .*, or, .* allow that with trust=True")
    trusted = Pretrained(str(folder), lora=None, trust=True).open().net.state_dict()
    assert all(torch.equal(value, trusted[name]) for name, value in whole.items())


OWN_CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
Path("{mark}").touch()
class OwnConfig(LlamaConfig):
    model_type = "own"
class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig
"""


def test_code_of_its_own_runs_only_on_request(saved, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder, mark = saved(), tmp_path / "it ran"
    (folder / "own.py").write_text(OWN_CODE.format(mark=mark))
    path = folder / "config.json"
    own = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnForCausalLM"}
    changes = {"model_type": "own", "architectures": ["OwnForCausalLM"], "auto_map": own}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    refused(folder, "tries to run code of its own; choose a model that transformers knows, or, .* trust=True")
    assert not mark.exists()
    assert type(Pretrained(str(folder), lora=None, trust=True).open().net).__name__ == "OwnForCausalLM"
    assert mark.exists()


def test_identity_follows_the_weights(saved):
    folder = saved()
    before = identity(str(folder))
    assert identity(str(folder)) == before
    saved(seed=1)
    assert identity(str(folder)) != before


def test_no_linear_maps_for_adapters(saved):
    """GPT-2's are no linear layers; all of it can be trained."""
    folder = saved("other")
    GPT2LMHeadModel(
        GPT2Config(vocab_size=24, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1)
    ).save_pretrained(folder)
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no linear maps .*; train all of it: lora=None"):
        Pretrained(str(folder), lora=Lora(rank=2)).open()
    assert Pretrained(str(folder), lora=None).open().names
