"""Texts that begin alike, read as one row: the same numbers and gradients as each alone (about 5 s of CPU)."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.tiny_agents import tiny

from fedrl.llm.decoding import Decision
from fedrl.llm.likelihood import Sample, likelihood
from fedrl.llm.packing import LONGEST, batches, pack, prefix_trees

torch.set_num_threads(1)
TEXT = st.lists(st.integers(4, 6), min_size=1, max_size=12)  # of few words, so that texts begin alike now and then
TEXTS = st.lists(TEXT, min_size=1, max_size=10)


@given(TEXTS, st.integers(1, 40))
def test_every_text_is_a_path_of_one_tree(texts, longest):
    found = prefix_trees(texts, longest)
    assert sorted(member for tree in found for member in tree.members) == list(range(len(texts)))
    for tree in found:
        assert len(tree.members) == 1 or len(tree.tokens) <= longest
        beginnings = {tuple(texts[member][: end + 1]) for member in tree.members for end in range(len(texts[member]))}
        assert len(tree.tokens) == len(beginnings)  # each stands there once
        for member, path in zip(tree.members, tree.paths, strict=True):
            assert [tree.tokens[column] for column in path] == texts[member]


def test_who_joins_whom():
    group = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4]]
    assert [tree.members for tree in prefix_trees([*group, [1, 9, 9, 9, 9]])] == [
        [0, 2, 1],
        [3],
    ]  # too little in common
    assert [tree.tokens for tree in prefix_trees(group)] == [[1, 2, 3, 4, 5]]
    assert [tree.members for tree in prefix_trees(group, 4)] == [[0, 2], [1]]  # no room


@given(TEXTS)
def test_each_looks_at_its_own_text_only(texts):
    packed = pack(texts)
    for text, row, path in zip(texts, packed.rows, packed.paths, strict=True):
        assert packed.ids[row, path].tolist() == text
        assert packed.positions[row, path].tolist() == list(range(len(text)))
        for place, column in enumerate(path):
            assert np.nonzero(packed.attends[row, column])[0].tolist() == sorted(path[: place + 1].tolist())
    assert packed.attends.any(axis=2).all()


@settings(deadline=None)
@given(st.lists(st.integers(1, 6000), min_size=1))
def test_batches_have_everyone_once_and_room_for_all(lengths):
    most = 4096
    found = batches([[i] * length for i, length in enumerate(lengths)], most)
    assert sorted(i for rows in found for i in rows) == list(range(len(lengths)))
    for rows in found:
        assert len(rows) == 1 or len(rows) * max(lengths[i] for i in rows) <= most
    for rows, after in itertools.pairwise(found):
        assert max(lengths[i] for i in rows) <= lengths[after[0]]
        assert (len(rows) + 1) * lengths[after[0]] > most


def test_texts_of_a_group_are_read_at_a_time():
    group = [[7] * 300 + [i] * 100 for i in range(5)]
    assert LONGEST == 768
    assert sorted(map(sorted, batches(group, 2048))) == [[0, 1, 2, 3, 4]]  # 700 and 400 tokens, not 2000
    assert sorted(map(sorted, batches(group, 500))) == [[0, 1], [2, 3], [4]]


@settings(max_examples=30, deadline=None)
@given(TEXTS, st.sampled_from([None, [4, 5, 6, 7]]), st.booleans())
@example([[6, 6, 4, 4], [6, 6, 5, 4, 4, 6]], None, False)  # off by 6e-9: a rounding in a norm
@example([[4]] * 8 + [[4, 4]] * 2, None, False)  # the gradient of the sum was off by 1.7e-6
def test_the_same_likelihood_and_gradient_as_each_alone(texts, choices, eager):
    model = tiny(dtype=torch.float64)
    model.net.set_attn_implementation("eager" if eager else "sdpa")
    # eager attention divides in single precision, and norms are always taken in it: a last bit may go either way
    close = {"atol": 1e-6, "rtol": 1e-6} if eager else {"atol": 1e-7, "rtol": 1e-7}
    samples = [
        Sample([*text, 7], [Decision(at, choices, [*text, 7][at], 0.0) for at in sorted({1, len(text)})])
        for text in texts
    ]
    together = likelihood(model, samples, language=True)
    apart = [likelihood(model, [sample], language=True) for sample in samples]
    torch.testing.assert_close(together.log_prob, torch.cat([one.log_prob for one in apart]), **close)
    torch.testing.assert_close(together.entropy, torch.cat([one.entropy for one in apart]), **close)
    tokens = [len(text) - 1 for text in texts]
    if all(tokens):
        mean = sum(n * one.language for n, one in zip(tokens, apart, strict=True)) / sum(tokens)
        torch.testing.assert_close(together.language, mean, **close)
    parameters = list(model.net.parameters())
    one, other = (
        torch.autograd.grad(total, parameters, allow_unused=True)
        for total in (together.log_prob.mean(), torch.cat([one.log_prob for one in apart]).mean())
    )
    # norms are taken in single precision, and their errors add up over texts: so it is the mean's gradient
    torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("texts", [[[4, 5, 6], [4, 5, 6]], [[4, 5, 6], [4, 5]]])
def test_one_text_in_another(texts):
    model = tiny()
    samples = [Sample([*text, 7], [Decision(len(text), [5, 7], 7, 0.0)]) for text in texts]
    found = likelihood(model, samples).log_prob
    torch.testing.assert_close(found, torch.cat([likelihood(model, [sample]).log_prob for sample in samples]))
