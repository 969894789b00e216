"""The source itself: one loop plays exchanges, one file makes a client's keys, one file finds the shapes of an exchange."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import fedrl

SOURCE = Path(fedrl.__file__).parent
FILES = {str(file.relative_to(SOURCE)): ast.parse(file.read_text()) for file in sorted(SOURCE.rglob("*.py"))}


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls of a function or method of this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if (isinstance(function, ast.Name) and function.id == name) or (
                isinstance(function, ast.Attribute) and function.attr == name
            ):
                yield node


def files_with(found: Callable[[ast.AST], bool]) -> list[str]:
    return [name for name, tree in FILES.items() if any(found(node) for node in ast.walk(tree))]


def over_exchanges(node: ast.AST) -> bool:
    """A `for` statement over exchanges in which something is executed, received or played."""
    if not isinstance(node, ast.For) or "exchanges" not in ast.unparse(node.iter):
        return False
    return any(any(calls(node, name)) for name in ("execute", "receive", "_play_exchange", "play"))


def makes_key(word: str) -> Callable[[ast.AST], bool]:
    """`keys.of(key, word, ...)`."""

    def found(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "keys.of":
            return False
        address = node.args[1]
        return isinstance(address, ast.Constant) and address.value == word

    return found


def test_one_loop_plays_exchanges():
    assert files_with(over_exchanges) == ["core/round.py"]
    assert sum(over_exchanges(node) for node in ast.walk(FILES["core/round.py"])) == 1


def test_one_file_makes_the_keys_of_a_client():
    environments_apart = [name for name in files_with(makes_key("client")) if not name.startswith("environments/")]
    assert environments_apart == ["core/client.py"]
    assert files_with(makes_key("step")) == ["core/client.py"]


def test_one_function_runs_an_exchange():
    """Executors are called from there only; engines provide them."""
    assert [name for name, tree in FILES.items() for _ in calls(tree, "_play_exchange")] == ["core/round.py"]
    assert files_with(lambda node: isinstance(node, ast.Call) and ast.unparse(node.func) == "player.execute") == [
        "core/round.py"
    ]


def test_one_file_finds_the_shapes_of_an_exchange():
    """`eval_shape` of something that starts and finishes clients' work, or receives it."""

    def traces_work(node: ast.AST) -> bool:
        if not isinstance(node, ast.Module):
            return False
        pieces = {"finish", "all_steps", "client_part"} & {
            name.name for imported in ast.walk(node) if isinstance(imported, ast.ImportFrom) for name in imported.names
        }
        return bool(pieces) and any(calls(node, "eval_shape"))

    assert files_with(traces_work) == ["core/shapes.py"]
