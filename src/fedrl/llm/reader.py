"""Extend many texts of different lengths, step by step, through one key-value cache of a causal language model."""

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

SPARE = 128  # columns by which the cache grows


class Reader:
    """A batch of texts, each with the hidden state after its last token.

    Texts with the same tokens share one row of the cache until they differ. A token's keys and values are stored in the
    column of its position, whichever call read it. Padding of a short block goes behind the end of the row: it is masked,
    and overwritten by the next block.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.cache = Cache(layer_class_to_replicate=partial(_Columns, self))  # type: ignore[arg-type]  # it is only called
        self.row: list[int] = []  # of each text
        self.lengths: Tensor | None = None  # [rows]
        self.last: Tensor | None = None  # [rows, width] hidden states
        self.positions: Tensor | None = None  # [rows, tokens] of what is being read

    @torch.no_grad()
    def read(self, blocks: Sequence[Sequence[int]]) -> Tensor:
        """Append a block of tokens to each text and return the hidden states after it [texts, width].

        A block may be empty, except the first of a text.
        """
        if self.last is None and not all(blocks):
            raise ValueError(
                "a text begins with at least one token, but a row's first block is empty; give it an opening"
            )
        old_rows = self.row if self.last is not None else [0] * len(blocks)
        extended = list(zip(old_rows, map(tuple, blocks), strict=True))
        new_rows = {pair: number for number, pair in enumerate(dict.fromkeys(extended))}
        self.row = [new_rows[pair] for pair in extended]
        if self.last is not None:
            self._select([row for row, _ in new_rows])
        self._read([block for _, block in new_rows])
        return self.hidden

    @property
    def hidden(self) -> Tensor:
        """The hidden state after the last token of each text [texts, width]."""
        assert self.last is not None
        return self.last[self.row]

    def _read(self, blocks: Sequence[Sequence[int]]) -> None:
        """Append a block to each row of the cache (several texts may share a row)."""
        device = self.model.device
        counts = torch.tensor([len(block) for block in blocks])
        width = int(counts.max())
        if width == 0:
            return
        ids = torch.zeros(len(blocks), width, dtype=torch.long)
        for row, block in enumerate(blocks):
            ids[row, : len(block)] = torch.tensor(block, dtype=torch.long)
        counts = counts.to(device)
        before = self.lengths if self.lengths is not None else torch.zeros_like(counts)
        self.positions = before[:, None] + torch.arange(width, device=device)
        columns = torch.arange(int(self.positions.max()) + 1, device=device)
        hidden = self.model.base_model(
            input_ids=ids.to(device),
            attention_mask=attention_mask(self.model, columns <= self.positions[:, :, None]),
            position_ids=self.positions,
            past_key_values=self.cache,
            use_cache=True,
        ).last_hidden_state
        after = hidden[torch.arange(len(blocks), device=device), (counts - 1).clamp(min=0)]
        self.last = after if self.last is None else torch.where((counts > 0)[:, None], after, self.last)
        self.lengths = before + counts

    def _select(self, rows: list[int]) -> None:
        """Keep only these rows of the cache, in this order; a row named twice is duplicated."""
        assert self.lengths is not None
        assert self.last is not None
        if rows == list(range(len(self.lengths))):
            return
        index = torch.tensor(rows, device=self.model.device)
        self.cache.batch_select_indices(index)
        self.lengths, self.last = self.lengths[index], self.last[index]

    def repeat(self, times: int) -> None:
        """Repeat every text `times` times."""
        self.row = [row for row in self.row for _ in range(times)]

    def keep(self, texts: Sequence[int]) -> None:
        """Keep only these texts, in this order."""
        self.row = [self.row[text] for text in texts]


class _Columns(DynamicLayer):
    """One layer's keys and values [rows, heads, columns, width]: one column per position, and `SPARE` more."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers has no annotation there
        self.reader = reader

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        positions = self.reader.positions
        assert positions is not None
        columns = int(positions.max()) + 1
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        assert self.keys is not None
        assert self.values is not None
        if columns > self.keys.shape[2]:
            self.keys, self.values = _widen(self.keys, columns + SPARE), _widen(self.values, columns + SPARE)
        place = positions[:, None, :, None].expand_as(key_states)
        self.keys.scatter_(2, place, key_states)
        self.values.scatter_(2, place, value_states)
        return self.keys[:, :, :columns], self.values[:, :, :columns]


def attention_mask(model: PreTrainedModel, attends: Tensor) -> Tensor:
    """[rows, 1, tokens, columns] in the form the model's attention expects: booleans, or numbers to be added."""
    attends = attends[:, None]
    if model.config._attn_implementation != "eager":
        return attends
    return torch.zeros_like(attends, dtype=model.dtype).masked_fill(~attends, torch.finfo(model.dtype).min)


def _widen(cached: Tensor, columns: int) -> Tensor:
    wide = cached.new_zeros(*cached.shape[:2], columns, cached.shape[3])
    wide[:, :, : cached.shape[2]] = cached
    return wide


def read_prompts(model: PreTrainedModel, texts: Sequence[list[int]], groups: Sequence[int]) -> Reader:
    """A reader of new texts, in this order. `groups` numbers the group of each; a group's common prefix is read once."""
    members: dict[int, list[list[int]]] = {}
    for text, group in zip(texts, groups, strict=True):
        members.setdefault(group, []).append(text)
    beginnings = {group: _common_prefix(group_texts) for group, group_texts in members.items()}
    place = {group: row for row, group in enumerate(members)}
    reader = Reader(model)
    reader.read(list(beginnings.values()))
    reader.keep([place[group] for group in groups])
    reader.read([text[len(beginnings[group]) :] for text, group in zip(texts, groups, strict=True)])
    return reader


def _common_prefix(texts: Sequence[list[int]]) -> list[int]:
    """The longest common prefix: that of the first and the last text in alphabetical order."""
    ends = zip(min(texts), max(texts), strict=False)
    return [token for token, _ in takewhile(lambda pair: pair[0] == pair[1], ends)]


def scores(model: PreTrainedModel, hidden: Tensor, choices: Sequence[Sequence[int]] | None) -> Tensor:
    """Logits of each row's `choices` given `hidden` [n, width], padded with minus infinity; None: of all tokens.

    They are at least single precision, whatever the model computes in, because probabilities are computed from them.
    """
    weight: Tensor = model.get_output_embeddings().weight
    precise = torch.promote_types(weight.dtype, torch.float32)
    if choices is None:
        return (hidden @ weight.T).to(precise)
    most = max(len(row) for row in choices)
    index = torch.zeros(len(choices), most, dtype=torch.long)
    valid = torch.zeros(len(choices), most, dtype=torch.bool)
    for row, tokens in enumerate(choices):
        index[row, : len(tokens)] = torch.tensor(tokens)
        valid[row, : len(tokens)] = True
    logits = torch.einsum("nw,ncw->nc", hidden, weight[index.to(weight.device)]).to(precise)
    return logits.masked_fill(~valid.to(weight.device), float("-inf"))
