"""Log-probabilities of decisions taken in episodes, all tokens read at once: what learning differentiates."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedrl.agents.decoding import Decision
from fedrl.agents.models.model import Model
from fedrl.agents.reader import scores


class Sample(NamedTuple):
    """A text and the decisions in it."""

    tokens: Sequence[int]
    decisions: Sequence[Decision]
    steps: Sequence[int] = ()  # of each decision the number of its step, where the text is of an episode


class Likelihood(NamedTuple):
    """Of every decision, those of the first sample first."""

    log_prob: Tensor
    entropy: Tensor
    language: Tensor  # mean log-probability of all tokens read, one number; zero where nobody asks


def likelihood(
    model: Model, samples: Sequence[Sample], temperature: float = 1.0, *, language: bool = False
) -> Likelihood:
    """What the model now gives the decisions. Only what comes before the last of them is read.

    At temperature 0 the likeliest was taken, and what is given is, as in `decoding`, its probability at temperature 1.
    """
    net = model.net
    texts = [sample.tokens[: max(d.position for d in sample.decisions)] for sample in samples]
    longest = max(len(text) for text in texts)
    ids = torch.zeros(len(texts), longest, dtype=torch.long)
    there = torch.zeros(len(texts), longest, dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        there[row, : len(text)] = 1
    hidden = net.base_model(input_ids=ids.to(net.device), attention_mask=there.to(net.device)).last_hidden_state
    made = [(row, decision) for row, sample in enumerate(samples) for decision in sample.decisions]
    rows, before = (torch.tensor(x) for x in zip(*((row, d.position - 1) for row, d in made), strict=True))
    choices = [d.choices for _, d in made]
    free = [x is None for x in choices]
    if any(free) and not all(free):
        raise ValueError("some decisions are free and some among commands; decode all episodes of a batch in one way")
    logits = scores(net, hidden[rows, before], None if all(free) else [c for c in choices if c is not None])
    chosen = torch.tensor([d.chosen if d.choices is None else d.choices.index(d.chosen) for _, d in made])
    log_p = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    entropy = -(log_p.exp() * log_p.masked_fill(log_p.isinf(), 0.0)).sum(dim=-1)
    told = _language(model, hidden, ids, there) if language else log_p.new_zeros(())
    return Likelihood(log_p.gather(1, chosen[:, None].to(log_p.device))[:, 0], entropy, told)


def _language(model: Model, hidden: Tensor, ids: Tensor, there: Tensor) -> Tensor:
    read = there[:, 1:].bool()
    log_p = torch.log_softmax(scores(model.net, hidden[:, :-1][read], None), dim=-1)
    return log_p.gather(1, ids[:, 1:][read][:, None].to(log_p.device)).mean()
