"""Admissible commands as a tree of tokens: decoding leaves each node along one of its branches.

A single branch is followed without a decision; among several the model decides. So every action is admissible, and its
log-probability is exactly the sum over the decisions.
"""

from collections.abc import Iterable, Sequence


class Trie:
    """A node; `branches` are the tokens that may come next."""

    __slots__ = ("branches", "word")

    def __init__(self) -> None:
        self.branches: dict[int, Trie] = {}
        self.word = -1  # index of the sequence that ends here; -1: none

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> "Trie":
        """No sequence may be the beginning of another: end each with a mark that occurs nowhere else.

        Of several equal sequences the first counts, because commands with the same tokens cannot be told apart.
        """
        root = cls()
        for number, tokens in enumerate(sequences):
            node, crosses_end = root, False
            for token in tokens:
                crosses_end = crosses_end or node.word >= 0
                node = node.branches.setdefault(token, cls())
            if crosses_end or node.branches or node is root:
                raise ValueError(
                    f"command {number} (tokens {list(tokens)}) is empty, or begins another, or another begins it; "
                    "end each command with a mark that none contains"
                )
            if node.word < 0:
                node.word = number
        if not root.branches:
            raise ValueError(
                "no command is admissible, so nothing can be decoded; the environment must offer at least one"
            )
        return root

    def forced(self) -> tuple[list[int], "Trie"]:
        """The tokens that follow without a decision, and the node where a decision is due or a sequence ends."""
        node, tokens = self, []
        while len(node.branches) == 1:
            token, node = next(iter(node.branches.items()))
            tokens.append(token)
        return tokens, node

    @property
    def choices(self) -> list[int]:
        return sorted(self.branches)
