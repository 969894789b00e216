"""Log-probabilities of decisions taken in episodes, from one pass over all tokens; learning differentiates them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedrl.llm.decoding import Decision
from fedrl.llm.models.frozen_prefix import FrozenPrefix
from fedrl.llm.models.model import Model
from fedrl.llm.packing import Packed, pack
from fedrl.llm.reader import attention_mask, scores


class Sample(NamedTuple):
    """A text and the decisions in it."""

    tokens: Sequence[int]
    decisions: Sequence[Decision]
    steps: Sequence[int] = ()  # the step number of each decision, if the text is an episode


class Likelihood(NamedTuple):
    """Values for every decision, those of the first sample first."""

    log_prob: Tensor
    entropy: Tensor
    language: Tensor  # mean log-probability of all tokens read, one number; zero unless requested


def likelihood(
    model: Model,
    samples: Sequence[Sample],
    temperature: float = 1.0,
    *,
    language: bool = False,
    prefix: FrozenPrefix | None = None,
) -> Likelihood:
    """The log-probabilities of the decisions under the current model. Only the tokens before the last decision are read, and
    common prefixes only once.

    At temperature 0, where the likeliest choice was taken, these are its log-probabilities at temperature 1, as in
    `decoding`. `prefix` caches the output of the frozen layers on these samples for another call.
    """
    net = model.net
    texts = [sample.tokens[: max(d.position for d in sample.decisions)] for sample in samples]
    packed = pack(texts)
    with (prefix or FrozenPrefix(model)).computed_once():
        hidden = net.base_model(
            input_ids=torch.from_numpy(packed.ids).to(net.device),
            position_ids=torch.from_numpy(packed.positions).to(net.device),
            attention_mask=attention_mask(net, torch.from_numpy(packed.attends).to(net.device)),
        ).last_hidden_state
    decisions = [(i, decision) for i, sample in enumerate(samples) for decision in sample.decisions]
    rows = torch.tensor([packed.rows[i] for i, _ in decisions])
    before = torch.tensor([packed.paths[i][d.position - 1] for i, d in decisions])
    choices = [d.choices for _, d in decisions]
    is_free = [x is None for x in choices]
    if any(is_free) and not all(is_free):
        raise ValueError("some decisions are free and some among commands; decode all episodes of a batch in one way")
    logits = scores(net, hidden[rows, before], None if all(is_free) else [c for c in choices if c is not None])
    chosen = torch.tensor([d.chosen if d.choices is None else d.choices.index(d.chosen) for _, d in decisions])
    log_p = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    entropy = -(log_p.exp() * log_p.masked_fill(log_p.isinf(), 0.0)).sum(dim=-1)
    language_log_prob = _language(model, hidden, packed) if language else log_p.new_zeros(())
    return Likelihood(log_p.gather(1, chosen[:, None].to(log_p.device))[:, 0], entropy, language_log_prob)


def _language(model: Model, hidden: Tensor, packed: Packed) -> Tensor:
    rows = np.repeat(packed.rows, [len(path) - 1 for path in packed.paths])
    before, after = (np.concatenate([path[part] for path in packed.paths]) for part in (slice(-1), slice(1, None)))
    log_p = torch.log_softmax(scores(model.net, hidden[rows, before], None), dim=-1)
    return log_p.gather(1, torch.from_numpy(packed.ids[rows, after])[:, None].to(log_p.device)).mean()
