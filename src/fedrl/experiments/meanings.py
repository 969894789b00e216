"""What each setting of a recipe means: the comment behind its field, or above it, in the source of the dataclass."""

import ast
import inspect
import io
import textwrap
import tokenize


def of_settings(config: type) -> dict[str, str]:
    """Field -> meaning, where there is one. A field that a subclass overrides without a comment keeps its meaning."""
    meanings: dict[str, str] = {}
    for base in reversed(config.__mro__[:-1]):
        meanings |= _of_class(base)
    return meanings


def _of_class(kind: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # without a file, as in a notebook
        return {}
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.ClassDef)
    behind, alone = _comments(source)
    meanings = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            said = [behind[line] for line in lines if line in behind] or _above(node.lineno, alone)
            if said:
                meanings[node.target.id] = " ".join(said)
    return meanings


def _comments(source: str) -> tuple[dict[int, str], dict[int, str]]:
    """Line -> comment: those behind code, and those on lines of their own."""
    behind: dict[int, str] = {}
    alone: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            place = alone if token.line.lstrip().startswith("#") else behind
            place[token.start[0]] = token.string.lstrip("#").strip()
    return behind, alone


def _above(line: int, alone: dict[int, str]) -> list[str]:
    said: list[str] = []
    while (line := line - 1) in alone:
        said.insert(0, alone[line])
    return said
