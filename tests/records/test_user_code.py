"""What a function of the user's may reach its settings and its code through: every such way makes another run."""

import functools
import importlib
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
import tomli_w

from fedrl.records import user_code
from fedrl.records.description import describe
from fedrl.records.identity import differences

HEAD = """
import argparse, dataclasses, enum, functools, types
from typing import NamedTuple
import numpy as np
import helpers_of_the_user
"""
HELPERS = """
CONST = 1.0
RNG = object()
def make(client, g=0.0): return client + g + CONST
"""
CASES = {  # what the script says, the text that is changed, what it is changed to
    "a function of a module": ("make_env = lambda c: helpers_of_the_user.make(c)", None, None),
    "a module imported inside": (
        "def make_env(c):\n    from helpers_of_the_user import make\n    return make(c)", None, None
    ),
    "the methods of a dataclass": (
        """
        @dataclasses.dataclass(frozen=True)
        class Make:
            g: float
            def __call__(self, c): return self.other(c)
            def other(self, c): return c * 2
        make_env = Make(1.0)
        """, "c * 2", "c * 3",
    ),
    "the methods of a named tuple": (
        """
        class Make(NamedTuple):
            g: float
            def __call__(self, c): return c * 2
        make_env = Make(1.0)
        """, "c * 2", "c * 3",
    ),
    "an object": (
        """
        class Box:
            def __init__(self, g): self.g = g
            def of(self, c): return c + self.g
        BOX = Box(1.0)
        make_env = lambda c: BOX.of(c)
        """, "Box(1.0)", "Box(2.0)",
    ),
    "an object's code": (
        """
        class Box:
            def of(self, c): return c + 1
        BOX = Box()
        make_env = lambda c: BOX.of(c)
        """, "c + 1", "c + 2",
    ),
    "a global dataclass": (
        """
        @dataclasses.dataclass
        class Conf: m: float
        CONF = Conf(1.0)
        make_env = lambda c: CONF.m
        """, "Conf(1.0)", "Conf(5.0)",
    ),
    "a namespace": ("SPACE = types.SimpleNamespace(g=1)\nmake_env = lambda c: SPACE.g", "g=1", "g=2"),
    "a script's arguments": ("ARGS = argparse.Namespace(g=1, rounds=7)\nmake_env = lambda c: ARGS.g", "g=1", "g=2"),
    "a partial": ("PART = functools.partial(max, 1)\nmake_env = lambda c: PART(c)", "max, 1", "max, 2"),
    "functions in a list": ("MAKERS = [lambda c: c + 1] * 2\nmake_env = lambda c: MAKERS[c](c)", "c + 1", "c + 2"),
    "a method of an object with a dataclass": (
        """
        @dataclasses.dataclass
        class Conf: g: float
        class Maker:
            def __init__(self, conf): self.conf = conf
            def make(self, c): return self.conf.g
        make_env = Maker(Conf(1.0)).make
        """, "Conf(1.0)", "Conf(2.0)",
    ),
    "slots": (
        """
        class Slots:
            __slots__ = ("g",)
            def __init__(self, g): self.g = g
            def __call__(self, c): return self.g
        make_env = Slots(1.0)
        """, "Slots(1.0)", "Slots(2.0)",
    ),
    "a default of a helper": ("def help(c, g=1): return g\nmake_env = lambda c: help(c)", "g=1", "g=2"),
    "a closure with a name": (
        "def outer(g):\n    return lambda c: g\nINNER = outer(1)\nmake_env = lambda c: INNER(c)", "outer(1)", "outer(2)"
    ),
    "a cached function": ("@functools.cache\ndef help(c): return c + 1\nmake_env = lambda c: help(c)", "c + 1", "c + 2"),
    "an installed class under a name": ("KIND = np.float32\nmake_env = lambda c: KIND(c)", "np.float32", "np.float64"),
}  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("script_of_the_user", "helpers_of_the_user"):
        sys.modules.pop(name, None)


def described(place: Path, script: str, helpers: str = HELPERS):
    for name, text in (("script_of_the_user", HEAD + textwrap.dedent(script)), ("helpers_of_the_user", helpers)):
        (place / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    make_env = importlib.import_module("script_of_the_user").make_env
    make_env(0)  # as `fedrl.gymnasium` does
    return tomllib.loads(tomli_w.dumps({"it": describe(make_env)}))


@pytest.mark.parametrize("name", CASES)
def test_another_one_is_noticed_and_the_same_is_the_same(place, name):
    script, old, new = CASES[name]
    before = described(place, script)
    assert described(place, script) == before
    assert not list(differences(before, described(place, "\n\n" + textwrap.dedent(script))))
    if old is None:
        others = [
            (script, HELPERS.replace(*pair)) for pair in (("client + g", "client - g"), ("1.0", "2.0"), ("g=0", "g=1"))
        ]
    else:
        assert old in script
        others = [(script.replace(old, new), HELPERS)]
    for changed in others:
        assert len(list(differences(before, described(place, *changed)))) >= 1, changed


def test_arguments_that_no_code_asks_for_do_not_count(place):
    """So that `train(rounds=args.rounds)` may go on with more rounds."""
    script = CASES["a script's arguments"][0]
    assert described(place, script) == described(place, script.replace("rounds=7", "rounds=9"))


def test_what_changes_while_it_is_used_does_not_count(place):
    script = """
    import gymnasium, random
    class Env(gymnasium.Env):
        def __init__(self): self.time = 0
    ENVS, RNG, ENV = {}, random.Random(0), Env()
    def make_env(c):
        ENVS[c] = Env()
        ENV.time += 1
        return RNG.random()
    """
    before = described(place, script)
    make_env = sys.modules["script_of_the_user"].make_env
    make_env(1)
    assert {"it": describe(make_env)} == before


def test_circles_end(place):
    script = """
    class Node:
        def __init__(self): self.others = []
        def __call__(self, c): return len(ALL)
    ALL = [Node() for _ in range(12)]
    for node in ALL:
        node.others = ALL
        node.friend = ALL[0]
    REGISTRY = {}
    REGISTRY["me"] = make_env = lambda c: (REGISTRY, ALL[0](c))
    """
    assert described(place, script) == described(place, script)
    assert " at 0x" not in str(described(place, script))


def test_two_processes_say_the_same_of_all_of_them(place):
    """Whatever the order of their sets and wherever their objects are."""
    said = set()
    for name in CASES:
        described(place, CASES[name][0])
        (place / f"case_{len(said)}.py").write_text((place / "script_of_the_user.py").read_text())
        said.add(name)
    loop = (
        "import importlib, sys\n"
        "from fedrl.records.description import describe\n"
        f"for i in range({len(said)}):\n"
        "    make_env = importlib.import_module(f'case_{i}').make_env\n"
        "    make_env(0)\n"
        "    print(describe(make_env))\n"
    )
    path = {"PYTHONPATH": os.pathsep.join([str(place), *sys.path])}
    texts = [
        subprocess.run(
            [sys.executable, "-c", loop], env=os.environ | path | {"PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert texts[0] == texts[1]
    assert texts[0].count("\n") == len(CASES)


def test_a_shared_part_is_described_alike_wherever_it_stands():
    part = functools.partial(max, 1)
    assert describe([part, part]) == describe([functools.partial(max, 1), functools.partial(max, 1)])


@pytest.mark.parametrize("folder", [".local/lib/python3.11/site-packages", "usr/lib/python3/dist-packages"])
def test_a_package_installed_elsewhere_is_not_the_users(tmp_path, monkeypatch, folder):
    """With `pip install --user`, or in a venv that also sees the packages of its parent."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    name = f"installed_in_{place.name.replace('-', '_')}"
    (place / f"{name}.py").write_text("def make(client): return client\n")
    monkeypatch.syspath_prepend(place)
    module = importlib.import_module(name)
    assert not user_code.is_users(module)
    assert not user_code.is_users(module.make)
    assert describe(module.make) == f"{name}.make"
