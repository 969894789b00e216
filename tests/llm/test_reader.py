"""Reading on through one cache, with gaps, equals reading each text alone from its beginning."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_agents import net

from fedrl.llm.reader import Reader, read_prompts, scores

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
        for row, text in enumerate(texts):
            torch.testing.assert_close(reader.hidden[row], alone(model, text), atol=tolerance, rtol=tolerance)

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
    before = reader.hidden
    assert torch.equal(reader.read([[], [], []]), before)


def test_a_row_that_begins_with_nothing():
    with pytest.raises(ValueError, match="first block is empty"):
        Reader(net()).read([[5], []])


TEXT = st.lists(st.integers(4, 6), max_size=6)  # of few words, so that texts begin alike now and then


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), TEXT), min_size=1, max_size=6))
def test_new_texts_of_groups_are_read_as_if_each_alone(drawn):
    model = net(dtype=torch.float64)
    groups = [group for group, _ in drawn]
    texts = [[7, *text] for _, text in drawn]
    reader = read_prompts(model, texts, groups)
    wanted = torch.stack([alone(model, text) for text in texts])
    torch.testing.assert_close(reader.hidden, wanted, atol=1e-12, rtol=1e-12)
    more = [[8] * (row % 3) for row in range(len(texts))]
    wanted = torch.stack([alone(model, [*text, *block]) for text, block in zip(texts, more, strict=True)])
    torch.testing.assert_close(reader.read(more), wanted, atol=1e-12, rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(TEXT, min_size=6, max_size=6), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_texts_that_go_on_alike_and_part(steps, chance):
    model, texts = net(dtype=torch.float64), [[7], [7], [8]]
    reader = Reader(model)
    reader.read(texts)
    assert reader.row == [0, 0, 1]
    reader.repeat(2)
    texts = [text for text in texts for _ in range(2)]
    for step in steps:
        kept = chance.sample(range(len(texts)), chance.randint(1, len(texts)))
        reader.keep(kept)
        texts = [[*texts[text], *more] for text, more in zip(kept, step, strict=False)]
        wanted = torch.stack([alone(model, text) for text in texts])
        torch.testing.assert_close(reader.read(step[: len(kept)]), wanted, atol=1e-12, rtol=1e-12)
        assert len(set(reader.row)) == len(reader.lengths) >= len(set(map(tuple, texts)))


def test_what_a_group_begins_with_is_read_once():
    model, read = net(), []
    hook = model.base_model.register_forward_pre_hook(
        lambda module, args, given: read.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    read_prompts(model, [[4, 5, 6, 7], [4, 5, 6, 7], [9], [4, 5, 6, 7]], [3, 3, 1, 3])
    assert read == [(2, 4)]
    read_prompts(model, [[4, 5, 6, 7], [4, 5, 6, 8, 9], [4, 5, 6]], [0, 0, 0])
    assert read[1:] == [(1, 3), (3, 2)]
    reader = Reader(model)
    reader.read([[4, 5]])
    reader.repeat(4)
    for blocks, seen in (([[6, 7]] * 4, (1, 2)), ([[8], [9], [8], [9]], (2, 1)), ([[5], [5], [5], [6]], (3, 1))):
        reader.read(blocks)
        assert read[-1] == seen
    hook.remove()


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
