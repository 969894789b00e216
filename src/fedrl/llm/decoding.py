"""How an agent's action is decoded: among the admissible commands, or freely.

Both go over all rows at once, decide with noise that was drawn beforehand, and say what each decision was between.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from fedrl.llm.reader import Reader, scores
from fedrl.llm.trie import Trie


class Decision(NamedTuple):
    """One token that was chosen, not forced."""

    position: int  # in the row's text: the token is the one at this index
    choices: list[int] | None  # what it was chosen from, ascending; None: every token
    chosen: int  # the token
    log_prob: float


class Answer(NamedTuple):
    """What a row's agent said: tokens up to the mark of its end, and the decisions among them."""

    tokens: list[int]
    decisions: list[Decision]
    command: int  # which of the admissible commands; -1 where it spoke freely


@torch.no_grad()
def choose_commands(
    reader: Reader,
    commands: Sequence[Sequence[Sequence[int]]],
    at: Sequence[int],
    noise: np.ndarray,
    temperature: float,
) -> list[Answer]:
    """Each row says one of its `commands` (as tokens, with the mark of the end); `at` is how long its text is by now.

    `noise` [rows, decisions] is uniform in [0, 1); a row that needs more takes it from the beginning again.
    """
    nodes = [Trie.of(row) for row in commands]
    said = [Answer([], [], -1) for _ in nodes]
    blocks: list[list[int]] = [[] for _ in nodes]
    open_rows = list(range(len(nodes)))
    for row in open_rows:
        blocks[row], nodes[row] = nodes[row].forced()
        said[row].tokens.extend(blocks[row])
    while True:
        hidden = reader.read(blocks)
        open_rows = [row for row in open_rows if nodes[row].branches]
        if not open_rows:
            break
        choices = [nodes[row].choices for row in open_rows]
        picked, log_probs = _pick(
            scores(reader.model, hidden[open_rows], choices), _next_noise(noise, said, open_rows), temperature
        )
        blocks = [[] for _ in nodes]
        for row, tokens, index, log_prob in zip(open_rows, choices, picked, log_probs, strict=True):
            token = tokens[index]
            said[row].decisions.append(Decision(at[row] + len(said[row].tokens), tokens, token, log_prob))
            forced, nodes[row] = nodes[row].branches[token].forced()
            blocks[row] = [token, *forced]
            said[row].tokens.extend(blocks[row])
    return [row._replace(command=node.word) for row, node in zip(said, nodes, strict=True)]


@torch.no_grad()
def generate_answers(
    reader: Reader, end: int, at: Sequence[int], noise: np.ndarray, temperature: float, most: int
) -> list[Answer]:
    """Each row says what it likes, up to the token `end`. After `most` tokens it is made to end: that is no decision.

    `noise` [rows, most] is uniform in [0, 1).
    """
    if noise.shape[1] < most:
        raise ValueError(
            f"{most} tokens need as many uniform numbers per row, got {noise.shape[1]}; draw more or lower most_tokens"
        )
    said = [Answer([], [], -1) for _ in at]
    going = list(range(len(said)))
    blocks: list[list[int]] = [[] for _ in said]
    while going:
        hidden = reader.read(blocks)
        picked, log_probs = _pick(
            scores(reader.model, hidden[going], None), _next_noise(noise, said, going), temperature
        )
        blocks = [[] for _ in said]
        for row, token, log_prob in zip(going, picked, log_probs, strict=True):
            said[row].decisions.append(Decision(at[row] + len(said[row].tokens), None, token, log_prob))
            blocks[row] = [token, end] if token != end and len(said[row].decisions) == most else [token]
            said[row].tokens.extend(blocks[row])
        going = [row for row in going if blocks[row][-1] != end]
    reader.read(blocks)
    return said


def _next_noise(noise: np.ndarray, said: Sequence[Answer], rows: Sequence[int]) -> np.ndarray:
    return np.array([noise[row, len(said[row].decisions) % noise.shape[1]] for row in rows])


def _pick(logits: torch.Tensor, uniform: np.ndarray, temperature: float) -> tuple[list[int], list[float]]:
    """The column where the cumulated probability passes `uniform`, and its log-probability; temperature 0: the likeliest."""
    log_p = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    if temperature == 0.0:
        index = log_p.argmax(dim=-1)
    else:
        cumulated = log_p.double().exp().cumsum(dim=-1)
        whole = cumulated[:, -1:]
        aim = torch.as_tensor(uniform, dtype=torch.float64, device=logits.device)[:, None] * whole
        aim = torch.minimum(aim, torch.nextafter(whole, torch.zeros_like(whole)))  # however the product was rounded
        index = (cumulated <= aim).sum(dim=-1)
    return index.tolist(), log_p.gather(1, index[:, None])[:, 0].tolist()
