"""Pack texts with a common prefix into one row, so that the prefix is stored and read only once.

Episodes of a group begin with the same task and often continue alike for some steps; of 8 on WebShop, about 40 % of the
tokens differ. A row is a tree of tokens: each token attends to its predecessors in its own text, and to no other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHARED_SHARE = 0.25  # of a text must already be in a row for the text to join it
LONGEST = 768  # tokens in a row of several texts; the attention mask is a table of all pairs


class PrefixTree(NamedTuple):
    members: list[int]  # indices of the texts
    paths: list[np.ndarray]  # of each text, the columns of its tokens
    tokens: list[int]


class Packed(NamedTuple):
    """All trees, one per row."""

    ids: np.ndarray  # [rows, columns]
    positions: np.ndarray  # [rows, columns] of the tokens in their texts
    attends: np.ndarray  # [rows, columns, columns]: whether one token attends to another
    rows: np.ndarray  # [texts]: the row of each text,
    paths: list[np.ndarray]  # and the columns of its tokens


def prefix_trees(texts: Sequence[Sequence[int]], longest: int = LONGEST) -> list[PrefixTree]:
    """Group the texts into trees. In alphabetical order, a text shares the longest prefix with the one before it."""
    trees: list[PrefixTree] = []
    previous: Sequence[int] = []
    for text, member in sorted((list(text), member) for member, text in enumerate(texts)):
        common = _common_length(previous, text)
        joins = trees and common >= SHARED_SHARE * len(text) and len(trees[-1].tokens) + len(text) - common <= longest
        if not joins:
            common = 0
            trees.append(PrefixTree([], [], []))
        tree = trees[-1]
        columns = np.arange(len(tree.tokens), len(tree.tokens) + len(text) - common)
        tree.paths.append(np.concatenate([tree.paths[-1][:common], columns]) if common else columns)
        tree.members.append(member)
        tree.tokens.extend(text[common:])
        previous = text
    return trees


def pack(texts: Sequence[Sequence[int]]) -> Packed:
    forest = prefix_trees(texts)
    width = max(len(tree.tokens) for tree in forest)
    ids, positions = (np.zeros((len(forest), width), np.int64) for _ in range(2))
    attends = np.zeros((len(forest), width, width), bool)
    attends[:, range(width), range(width)] = True  # padding attends to itself, so that its softmax is defined
    rows, paths = np.zeros(len(texts), np.int64), [np.zeros(0, np.int64)] * len(texts)
    for row, tree in enumerate(forest):
        ids[row, : len(tree.tokens)] = tree.tokens
        for member, path in zip(tree.members, tree.paths, strict=True):
            positions[row, path] = np.arange(len(path))
            attends[row, path[:, None], path[None, :]] = np.tri(len(path), dtype=bool)
            rows[member], paths[member] = row, path
    return Packed(ids, positions, attends, rows, paths)


def batches(texts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Divide the texts into batches of trees of similar length, each of at most `most` tokens or a single tree."""
    groups: list[list[int]] = []
    rows = 0
    for tree in sorted(prefix_trees(texts, min(most, LONGEST)), key=lambda tree: len(tree.tokens)):
        if not groups or (rows + 1) * len(tree.tokens) > most:
            groups.append([])
            rows = 0
        groups[-1] += tree.members
        rows += 1
    return groups


def _common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common prefix."""
    length = min(len(one), len(other))
    differs = np.nonzero(np.asarray(one[:length]) != np.asarray(other[:length]))[0]
    return int(differs[0]) if len(differs) else length
