"""Texts that begin alike, side by side in one row: what they have in common stands there, and is read, only once.

Episodes of a group begin with the same task and often go on alike for some steps; of 8 on WebShop, about 40 % of the tokens
differ. A row then is a tree of tokens: each looks at those before it in its own text, and at no other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHARED_SHARE = 0.25  # of a text must stand in the row already for it to join the others there
LONGEST = 768  # tokens of a row of several texts: who looks at whom is a table of all pairs


class PrefixTree(NamedTuple):
    members: list[int]  # which of the texts
    paths: list[np.ndarray]  # of each of them, the columns in which its tokens stand
    tokens: list[int]


class Packed(NamedTuple):
    """All trees, a row each."""

    ids: np.ndarray  # [rows, columns]
    positions: np.ndarray  # [rows, columns] of the tokens in their texts
    attends: np.ndarray  # [rows, columns, columns]: whether the one looks at the other
    rows: np.ndarray  # [texts]: where each text is,
    paths: list[np.ndarray]  # and the columns in which its tokens stand


def prefix_trees(texts: Sequence[Sequence[int]], longest: int = LONGEST) -> list[PrefixTree]:
    """In alphabetical order a text has most in common with the one before it."""
    found: list[PrefixTree] = []
    before: Sequence[int] = []
    for text, member in sorted((list(text), member) for member, text in enumerate(texts)):
        common = _common_length(before, text)
        joins = found and common >= SHARED_SHARE * len(text) and len(found[-1].tokens) + len(text) - common <= longest
        if not joins:
            common = 0
            found.append(PrefixTree([], [], []))
        tree = found[-1]
        new = np.arange(len(tree.tokens), len(tree.tokens) + len(text) - common)
        tree.paths.append(np.concatenate([tree.paths[-1][:common], new]) if common else new)
        tree.members.append(member)
        tree.tokens.extend(text[common:])
        before = text
    return found


def pack(texts: Sequence[Sequence[int]]) -> Packed:
    forest = prefix_trees(texts)
    width = max(len(tree.tokens) for tree in forest)
    ids, positions = (np.zeros((len(forest), width), np.int64) for _ in range(2))
    attends = np.zeros((len(forest), width, width), bool)
    attends[:, range(width), range(width)] = True  # also where a row is filled up: nobody looks there
    rows, paths = np.zeros(len(texts), np.int64), [np.zeros(0, np.int64)] * len(texts)
    for row, tree in enumerate(forest):
        ids[row, : len(tree.tokens)] = tree.tokens
        for member, path in zip(tree.members, tree.paths, strict=True):
            positions[row, path] = np.arange(len(path))
            attends[row, path[:, None], path[None, :]] = np.tri(len(path), dtype=bool)
            rows[member], paths[member] = row, path
    return Packed(ids, positions, attends, rows, paths)


def batches(texts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Which texts to read at a time: trees that are about as long together, of at most `most` tokens or alone."""
    found: list[list[int]] = []
    rows = 0
    for tree in sorted(prefix_trees(texts, min(most, LONGEST)), key=lambda tree: len(tree.tokens)):
        if not found or (rows + 1) * len(tree.tokens) > most:
            found.append([])
            rows = 0
        found[-1] += tree.members
        rows += 1
    return found


def _common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    length = min(len(one), len(other))
    differs = np.nonzero(np.asarray(one[:length]) != np.asarray(other[:length]))[0]
    return int(differs[0]) if len(differs) else length
