"""Trees of admissible commands: every command is reachable, nothing else is, and probabilities are those of a policy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrl.llm.trie import Trie

END = 9
COMMANDS = st.lists(
    st.lists(st.integers(0, 4), max_size=4).map(lambda tokens: (*tokens, END)), min_size=1, max_size=8, unique=True
)


def leaves(node: Trie, prefix: tuple[int, ...] = ()) -> dict[tuple[int, ...], int]:
    if not node.branches:
        return {prefix: node.word}
    return {
        path: word for token in node.choices for path, word in leaves(node.branches[token], (*prefix, token)).items()
    }


@given(COMMANDS)
def test_every_command_is_reached_and_nothing_else(commands):
    assert leaves(Trie.of(commands)) == {tokens: number for number, tokens in enumerate(commands)}


@given(COMMANDS, st.integers(0, 2**32 - 1))
def test_probabilities_sum_to_one(commands, seed):
    """Whatever scores the tokens have at each node, a softmax over the choices there is a distribution over commands."""
    draw = np.random.default_rng(seed)

    def log_probs(node: Trie, so_far: float) -> list[float]:
        if not node.branches:
            return [so_far]
        scores = draw.normal(0, 5, len(node.choices))
        scores -= np.logaddexp.reduce(scores)
        return [x for t, s in zip(node.choices, scores, strict=True) for x in log_probs(node.branches[t], so_far + s)]

    found = log_probs(Trie.of(commands), 0.0)
    assert len(found) == len(commands)
    assert math.isclose(sum(map(math.exp, found)), 1.0, rel_tol=1e-9)


@given(COMMANDS)
def test_forced_tokens_are_what_all_have_in_common(commands):
    tokens, node = Trie.of(commands).forced()
    common = 0
    while all(len(c) > common for c in commands) and len({c[common] for c in commands}) == 1:
        common += 1
    assert tokens == list(commands[0][:common])
    assert len(node.branches) != 1


def test_choices_ascend_whatever_the_order_of_commands():
    assert Trie.of([(3, END), (1, END), (2, END)]).choices == [1, 2, 3]


@pytest.mark.parametrize(
    "commands",
    [
        [(1, 2), (1,)],
        [(1,), (1, 2)],  # the shorter first
        [(1,), (1, 2, 3)],
        [(), (1,)],
        [(1,), ()],
    ],
)
def test_one_that_begins_another_is_refused(commands):
    with pytest.raises(ValueError, match="end each command with a mark"):
        Trie.of(commands)


def test_of_the_same_twice_the_first_is_meant():
    assert leaves(Trie.of([(1, END), (2, END), (1, END)])) == {(1, END): 0, (2, END): 1}


def test_no_command_at_all():
    with pytest.raises(ValueError, match="no command is admissible"):
        Trie.of([])
