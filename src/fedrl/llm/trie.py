"""Admissible commands as a tree of tokens: decoding only ever leaves a node along one of its branches.

Where there is one way to go on it is taken for free; where there are several the model decides among them. So every action
is admissible, and its log-probability is exactly the sum over the decisions.
"""

from collections.abc import Iterable, Sequence


class Trie:
    """A node; `branches` are the tokens that may come next."""

    __slots__ = ("branches", "word")

    def __init__(self) -> None:
        self.branches: dict[int, Trie] = {}
        self.word = -1  # which of the sequences ends here; -1: none

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> "Trie":
        """None may be the beginning of another: end each with a mark that none has elsewhere.

        Of several that are the same the first is meant: commands that a tokenizer spells alike cannot be told apart.
        """
        root = cls()
        for number, tokens in enumerate(sequences):
            node, passed = root, False
            for token in tokens:
                passed = passed or node.word >= 0
                node = node.branches.setdefault(token, cls())
            if passed or node.branches or node is root:
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
        """The tokens that follow without a decision, and the node where one is to be made or a sequence ends."""
        node, tokens = self, []
        while len(node.branches) == 1:
            token, node = next(iter(node.branches.items()))
            tokens.append(token)
        return tokens, node

    @property
    def choices(self) -> list[int]:
        return sorted(self.branches)
