"""How an agent's action is decoded: among the admissible commands, or freely.

Both decode all rows at once, decide with noise drawn in advance, and record the alternatives of each decision.
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
    choices: list[int] | None  # the alternatives, ascending; None: every token
    chosen: int  # the token
    log_prob: float


class Answer(NamedTuple):
    """The answer of a row's agent: tokens up to and including the end mark, and the decisions among them."""

    tokens: list[int]
    decisions: list[Decision]
    command: int  # index among the admissible commands; -1 for a free answer


@torch.no_grad()
def choose_commands(
    reader: Reader,
    commands: Sequence[Sequence[Sequence[int]]],
    at: Sequence[int],
    noise: np.ndarray,
    temperature: float,
) -> list[Answer]:
    """Each row chooses one of its `commands` (tokens with the end mark); `at` is the current length of its text.

    `noise` [rows, decisions] is uniform in [0, 1); a row that needs more starts again at its beginning.
    """
    nodes = [Trie.of(row) for row in commands]
    answers = [Answer([], [], -1) for _ in nodes]
    blocks: list[list[int]] = [[] for _ in nodes]
    open_rows = list(range(len(nodes)))
    for row in open_rows:
        blocks[row], nodes[row] = nodes[row].forced()
        answers[row].tokens.extend(blocks[row])
    while True:
        hidden = reader.read(blocks)
        open_rows = [row for row in open_rows if nodes[row].branches]
        if not open_rows:
            break
        choices = [nodes[row].choices for row in open_rows]
        indices, log_probs = _pick(
            scores(reader.model, hidden[open_rows], choices), _next_noise(noise, answers, open_rows), temperature
        )
        blocks = [[] for _ in nodes]
        for row, tokens, index, log_prob in zip(open_rows, choices, indices, log_probs, strict=True):
            token = tokens[index]
            answers[row].decisions.append(Decision(at[row] + len(answers[row].tokens), tokens, token, log_prob))
            forced, nodes[row] = nodes[row].branches[token].forced()
            blocks[row] = [token, *forced]
            answers[row].tokens.extend(blocks[row])
    return [row._replace(command=node.word) for row, node in zip(answers, nodes, strict=True)]


@torch.no_grad()
def generate_answers(
    reader: Reader, end: int, at: Sequence[int], noise: np.ndarray, temperature: float, most: int
) -> list[Answer]:
    """Each row generates freely up to the token `end`. After `most` tokens the end is forced, which is no decision.

    `noise` [rows, most] is uniform in [0, 1).
    """
    if noise.shape[1] < most:
        raise ValueError(
            f"{most} tokens need as many uniform numbers per row, got {noise.shape[1]}; draw more or lower most_tokens"
        )
    answers = [Answer([], [], -1) for _ in at]
    open_rows = list(range(len(answers)))
    blocks: list[list[int]] = [[] for _ in answers]
    while open_rows:
        hidden = reader.read(blocks)
        tokens, log_probs = _pick(
            scores(reader.model, hidden[open_rows], None), _next_noise(noise, answers, open_rows), temperature
        )
        blocks = [[] for _ in answers]
        for row, token, log_prob in zip(open_rows, tokens, log_probs, strict=True):
            answers[row].decisions.append(Decision(at[row] + len(answers[row].tokens), None, token, log_prob))
            blocks[row] = [token, end] if token != end and len(answers[row].decisions) == most else [token]
            answers[row].tokens.extend(blocks[row])
        open_rows = [row for row in open_rows if blocks[row][-1] != end]
    reader.read(blocks)
    return answers


def _next_noise(noise: np.ndarray, answers: Sequence[Answer], rows: Sequence[int]) -> np.ndarray:
    return np.array([noise[row, len(answers[row].decisions) % noise.shape[1]] for row in rows])


def _pick(logits: torch.Tensor, uniform: np.ndarray, temperature: float) -> tuple[list[int], list[float]]:
    """The column where the cumulative probability passes `uniform`, or at temperature 0 the likeliest, and its log-prob."""
    log_p = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    if temperature == 0.0:
        index = log_p.argmax(dim=-1)
    else:
        cumulative = log_p.double().exp().cumsum(dim=-1)
        total = cumulative[:, -1:]
        aim = torch.as_tensor(uniform, dtype=torch.float64, device=logits.device)[:, None] * total
        aim = torch.minimum(aim, torch.nextafter(total, torch.zeros_like(total)))  # however the product was rounded
        index = (cumulative <= aim).sum(dim=-1)
    return index.tolist(), log_p.gather(1, index[:, None])[:, 0].tolist()
