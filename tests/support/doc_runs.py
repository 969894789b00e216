"""Blocks of the documentation carried out: Python in one namespace per page, commands of `fedrl` in this process."""

import ast
import inspect
import re
import shlex
import sys
import tomllib
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle
import jax
from support.command_line import call
from support.doc_blocks import ROOT, TINY, Block, commands, smaller

from fedrl.cli.app import app
from fedrl.experiments import orders


@contextmanager
def promotion_allowed() -> Iterator[None]:
    """JAX as a user has it, also in threads: conftest.py forbids promotion of dtype and rank."""
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    jax.config.update("jax_numpy_rank_promotion", "allow")
    try:
        yield
    finally:
        jax.config.update("jax_numpy_dtype_promotion", "strict")
        jax.config.update("jax_numpy_rank_promotion", "raise")


def run_page(blocks: list[Block]) -> None:
    """All blocks in order, in the current folder. What they define travels to worker processes whole, as a script's does."""
    page = types.ModuleType(re.sub(r"\W", "_", blocks[0].page))
    sys.modules[page.__name__] = page
    cloudpickle.register_pickle_by_value(page)
    try:
        with promotion_allowed():
            for block in blocks:
                _carry_out(block, page.__dict__)
    finally:
        cloudpickle.unregister_pickle_by_value(page)
        del sys.modules[page.__name__]
        jax.clear_caches()  # no other page has a use for its programs


def _carry_out(block: Block, namespace: dict[str, Any]) -> None:
    if block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "python" and block.treatment == "names":
        look_up(block)
    elif block.language == "python" and block.treatment == "run":
        text = smaller(block)
        exec(compile("\n" * block.line + text, block.page, "exec"), namespace)
    elif block.language == "sh" and block.treatment != "skip":
        for command in commands(block.text):
            run_command(command, block)


def look_up(block: Block) -> None:
    """Compile, import, and look up every attribute and keyword of what was imported."""
    tree = ast.parse(block.text)
    compile(tree, block.page, "exec")
    names: dict[str, Any] = {}
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), block.page, "exec"), names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            _value(node, names)
        if isinstance(node, ast.Call) and (called := _value(node.func, names)) is not None:
            known = inspect.signature(called).parameters.values()
            if any(it.kind is it.VAR_KEYWORD for it in known):
                continue
            for keyword in node.keywords:
                if keyword.arg not in {it.name for it in known}:
                    raise TypeError(f"{block.place}: {ast.unparse(node.func)} has no parameter {keyword.arg}")


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """What `a.b.c` stands for if `a` was imported, else None."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _value(node.value, names)) is not None:
        return getattr(owner, node.attr)
    return None


def run_command(command: str, block: Block) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        known = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert set(arguments) <= set(known), f"{block.place}: {command}"
    elif program == "pip":
        check_extras(command, block)
    elif program == "fedrl" and block.treatment == "order":
        check_order(arguments, block.place)
    elif program == "fedrl":
        assert call(*_small(arguments)) == 0, f"{block.place}: {command}"
    else:
        raise ValueError(f"{block.place}: {program} is not run by tests; mark the block <!-- test: skip, needs … -->")


def check_extras(command: str, block: Block) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extras in re.findall(r"fedrl\[(.*?)\]", command):
        assert set(extras.split(",")) <= set(known), f"{block.place}: {command}"


def check_order(arguments: list[str], place: str) -> None:
    """The command and its options exist; a recipe is known, and so are its settings."""
    import typer.main

    command = typer.main.get_command(app)
    words = list(arguments)
    while words and (inner := getattr(command, "commands", {}).get(words[0])):
        command, words = inner, words[1:]
    assert not getattr(command, "commands", None) or words in ([], ["--help"], ["--version"]), f"{place}: {arguments}"
    given = command.make_context("fedrl", words, resilient_parsing=True).params
    recipe = given.get("recipe")
    if recipe and recipe.islower() and not recipe.endswith((".toml", ".py")):
        settings = dict(it.split("=", 1) for it in given.get("settings") or [])
        orders.order(recipe, paper=bool(given.get("paper")), overrides=settings, seeds=given.get("seeds"))


def _small(arguments: list[str]) -> list[str]:
    """`fedrl run RECIPE …` with the settings of `TINY`, and two seeds at most; `evaluate` with few episodes."""
    if arguments[0] == "evaluate":
        return [*arguments, "--episodes", "2"]
    if arguments[0] != "run" or "--resume" in arguments or any(it.endswith(".toml") for it in arguments):
        return arguments
    named = [it for it in arguments[1:2] if not it.startswith("-")]
    recipe = named[0] if named else "quickstart"
    if recipe.endswith(".py") or ":" in recipe:  # a recipe of one's own is as small as its page makes it
        return arguments
    if recipe not in TINY:
        raise ValueError(f"{recipe} has no small settings in TINY; add them or mark the block <!-- test: order, … -->")
    small = [word for key, value in TINY[recipe].items() for word in ("--set", f"{key}={value}")]
    return [*(it for it in arguments if it != "--paper"), *small, "--seeds", "2"]
