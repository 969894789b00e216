"""Reading on through one cache, with gaps, equals reading each text alone from its beginning."""

import numpy as np
import pytest
import torch
from tiny_agents import net

from fedrl.agents.reader import Reader, scores

torch.set_num_threads(1)


def alone(model, text: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model.base_model(input_ids=torch.tensor([text])).last_hidden_state[0, -1]


def blocks_of(draw: np.random.Generator, rows: int, least: int, most: int) -> list[list[int]]:
    return [draw.integers(4, 20, draw.integers(least, most + 1)).tolist() for _ in range(rows)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_ragged_reading(dtype, tolerance):
    model, draw = net(dtype=dtype), np.random.default_rng(1)
    reader = Reader(model)
    texts: list[list[int]] = [[] for _ in range(3)]

    def check() -> None:
        assert reader.last is not None
        for row, text in enumerate(texts):
            torch.testing.assert_close(reader.last[row], alone(model, text), atol=tolerance, rtol=tolerance)

    def read(least: int) -> None:
        blocks = blocks_of(draw, len(texts), least, 5)
        reader.read(blocks)
        for text, block in zip(texts, blocks, strict=True):
            text.extend(block)
        check()

    read(1)
    read(0)
    reader.repeat(2)
    texts[:] = [list(text) for text in texts for _ in range(2)]
    check()
    for _ in range(3):
        read(0)
    reader.keep([4, 1, 2])
    texts[:] = [texts[row] for row in (4, 1, 2)]
    check()
    for _ in range(3):
        read(0)
    before = reader.last
    assert torch.equal(reader.read([[], [], []]), before)


def test_a_row_that_begins_with_nothing():
    with pytest.raises(ValueError, match="first block is empty"):
        Reader(net()).read([[5], []])


def test_scores_of_choices_are_those_of_all_tokens():
    model = net()
    hidden = Reader(model).read([[5, 6], [7]])
    every = scores(model, hidden, None)
    some = scores(model, hidden, [[3, 8], [1, 2, 9]])
    assert every.shape == (2, model.config.vocab_size)
    torch.testing.assert_close(some[0, :2], every[0, [3, 8]])
    torch.testing.assert_close(some[1], every[1, [1, 2, 9]])
    assert some[0, 2] == float("-inf")
    with torch.no_grad():
        whole = model(input_ids=torch.tensor([[5, 6]])).logits[0, -1]
    torch.testing.assert_close(every[0], whole)


def test_scores_of_a_half_precision_model_are_single():
    model = net(dtype=torch.bfloat16)
    hidden = Reader(model).read([[5, 6]])
    assert hidden.dtype == torch.bfloat16
    assert scores(model, hidden, None).dtype == scores(model, hidden, [[1, 2]]).dtype == torch.float32
