"""Reading on: texts of different lengths, extended again and again, through one cache of a causal language model."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel


class Reader:
    """Rows of text, each with the hidden state after its last token. All rows are read at once.

    A block that is shorter than the others is filled up with tokens that nobody attends to, so the cache has gaps, but
    positions have none.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model, self.cache = model, DynamicCache()
        self.seen: Tensor | None = None  # [rows, columns] which entries of the cache count
        self.last: Tensor | None = None  # [rows, width] hidden states

    @torch.no_grad()
    def read(self, blocks: Sequence[Sequence[int]]) -> Tensor:
        """Each row goes on with its block, which may be empty but not at first; the hidden states after it [rows, width]."""
        if self.last is None and not all(blocks):
            raise ValueError(
                "a text begins with at least one token, but a row's first block is empty; give it an opening"
            )
        lengths = torch.tensor([len(block) for block in blocks])
        width = int(lengths.max())
        if self.last is not None and width == 0:
            return self.last
        device = self.model.device
        ids = torch.zeros(len(blocks), width, dtype=torch.long)
        for row, block in enumerate(blocks):
            ids[row, : len(block)] = torch.tensor(block, dtype=torch.long)
        new = (torch.arange(width)[None, :] < lengths[:, None]).to(torch.long).to(device)
        before = self.seen if self.seen is not None else new[:, :0]
        seen = torch.cat([before, new], dim=1)
        positions = before.sum(dim=1, keepdim=True) + torch.arange(width, device=device)[None, :]
        out = self.model.base_model(
            input_ids=ids.to(device),
            attention_mask=seen,
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
        )
        hidden = out.last_hidden_state
        at = (lengths.to(device) - 1).clamp(min=0)
        after = hidden[torch.arange(len(blocks), device=device), at]
        self.last = after if self.last is None else torch.where((lengths > 0).to(device)[:, None], after, self.last)
        self.seen = seen
        return self.last

    def repeat(self, times: int) -> None:
        """Every row `times` times over: what a group has in common is read once."""
        assert self.seen is not None
        assert self.last is not None
        self.cache.batch_repeat_interleave(times)
        self.seen, self.last = (x.repeat_interleave(times, dim=0) for x in (self.seen, self.last))

    def keep(self, rows: Sequence[int]) -> None:
        """Only these rows, in this order."""
        assert self.seen is not None
        assert self.last is not None
        index = torch.tensor(rows, device=self.model.device)
        self.cache.batch_select_indices(index)
        self.seen, self.last = self.seen[index], self.last[index]


def scores(model: PreTrainedModel, hidden: Tensor, choices: Sequence[Sequence[int]] | None) -> Tensor:
    """Logits after `hidden` [n, width] of each row's `choices`, filled up with minus infinity; None: of all tokens.

    At least in single precision, whatever the model computes in: probabilities are made of them.
    """
    weight = model.get_output_embeddings().weight
    precise = torch.promote_types(weight.dtype, torch.float32)
    if choices is None:
        return (hidden @ weight.T).to(precise)
    most = max(len(row) for row in choices)
    index = torch.zeros(len(choices), most, dtype=torch.long)
    there = torch.zeros(len(choices), most, dtype=torch.bool)
    for row, tokens in enumerate(choices):
        index[row, : len(tokens)] = torch.tensor(tokens)
        there[row, : len(tokens)] = True
    logits = torch.einsum("nw,ncw->nc", hidden, weight[index.to(weight.device)]).to(precise)
    return logits.masked_fill(~there.to(weight.device), float("-inf"))
