"""Pocket: a small Llama, with a tokenizer made from the applications' own text, so that whole studies run on two cores."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fedrl.arguments import at_least, checked_class

END, AGENT, WORLD = "<end>", "<agent>", "<world>"  # after an action; before an action; before an observation


EMBEDDING, SEEK, SAY = 3.0, 1.0, 0.7  # of `_incline_to_copy`


@checked_class
@dataclass(frozen=True)
class Size:
    vocabulary: int = 2048
    width: int = 96
    layers: int = 4
    heads: int = 4
    inner: int = 288
    longest: int = 4096  # tokens

    def __post_init__(self) -> None:
        at_least(1, width=self.width, layers=self.layers, heads=self.heads, inner=self.inner, longest=self.longest)
        at_least(1, vocabulary=self.vocabulary)
        if self.width % self.heads:
            raise ValueError(
                f"width must be a multiple of heads, got {self.width} and {self.heads}; 96 and 4 are usual"
            )


def tokenizer(texts: Iterable[str], size: Size = Size()) -> PreTrainedTokenizerFast:
    """Byte-pair encoding within words, which can encode any text; learnt from `texts`.

    A word has the same tokens wherever it stands, after a space or in brackets, because a small network must copy words and
    cannot afford to learn that two spellings are one. Spaces are not encoded, so decoding does not restore a text exactly.
    """
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Whitespace(),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    pairs.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size.vocabulary,
        special_tokens=[END, AGENT, WORLD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pairs.train_from_iterator(texts, trainer)
    return wrapped(pairs)


def wrapped(pairs: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=pairs, eos_token=END, additional_special_tokens=[AGENT, WORLD])


def untrained(vocabulary: int, size: Size = Size(), seed: int = 0) -> LlamaForCausalLM:
    """A new network, biased towards copying; the same seed gives the same parameters, whatever else draws from torch."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=size.longest,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: LlamaForCausalLM = LlamaForCausalLM(config).eval()
        _incline_to_copy(net, size.width)
    return net


@torch.no_grad()
def _incline_to_copy(net: LlamaForCausalLM, width: int) -> None:
    """Initialise every head to attend to words like its own and to output what it finds (Trockman & Kolter 2023).

    The same rotation is added to W_Q and W_K, another to W_V and its inverse to W_O, so that both products are close to a
    multiple of the identity, as training makes them in large models. These agents must first learn to find and repeat words
    of the task: 800 demonstrations of WebShop, read once, gave 41 % success with it and 5 % without (one seed).
    """
    net.model.embed_tokens.weight.mul_(EMBEDDING)
    for layer in net.model.layers:
        attention = layer.self_attn
        query_rotation, value_rotation = (torch.linalg.qr(torch.randn(width, width))[0] for _ in range(2))
        for matrix in (attention.q_proj, attention.k_proj):
            matrix.weight.add_(SEEK * query_rotation.T)
        attention.v_proj.weight.add_(SAY * value_rotation.T)
        attention.o_proj.weight.add_(SAY * value_rotation)
