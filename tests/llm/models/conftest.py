"""Folders of tiny pretrained models, as save_pretrained leaves them."""

from pathlib import Path

import pytest
import torch
from support.tiny_agents import SMALL, net, tokenizer
from transformers import LlamaForCausalLM

from fedrl.llm.models import loading, pretrained, resolve, weights_cache

CHAT = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %}<agent> {{ m['content'] }}<end>"
    "{% else %}<world> {{ m['content'] }} {% endif %}{% endfor %}{% if add_generation_prompt %}<agent> {% endif %}"
)


@pytest.fixture
def saved(tmp_path):
    """(name, **changes of its config) -> folder of a tiny Llama with a tokenizer and a chat template."""

    def save(name: str = "model", *, seed: int = 0, chat: str | None = CHAT, shards: str = "1GB", **changes) -> Path:
        model = net(seed)
        if changes:
            other = LlamaForCausalLM(type(model.config)(**(model.config.to_dict() | changes)))
            other.load_state_dict(model.state_dict())
            model = other
        model.save_pretrained(tmp_path / name, max_shard_size=shards)
        words = type(tokenizer())(
            tokenizer_object=tokenizer().backend_tokenizer,
            eos_token=tokenizer().eos_token,
            additional_special_tokens=["<agent>", "<world>"],
        )
        words.chat_template = chat
        words.save_pretrained(tmp_path / name)
        return tmp_path / name

    return save


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Nothing in memory or in the cache of earlier tests, and one thread."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    assert SMALL.layers == 2
    yield
    for cached in (
        loading._open_model,
        resolve.resolve,
        resolve.tokenizer_of,
        pretrained._formatter,
        pretrained._load_or_warm_up,
    ):
        cached.cache_clear()
    weights_cache._nets.clear()
    weights_cache._initial.clear()
