"""The first steps of environments that are fine, wrong, hang or crash: modules written here, in a site's own folder."""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrl.organisations import agreement as agreements
from fedrl.organisations import check_environment, first_steps, init, step_times
from fedrl.organisations import site as sites
from fedrl.organisations.check_environment import CLIENTS, IMPORT, METHOD, NAMES, REFUSALS, RESET, SPACES, STEPS
from fedrl.organisations.check_items import FAIL, OK, SKIPPED, WARN, Item

NUMBERS = itertools.count()
WARD = """
import os, sys, time
import gymnasium as gym
import numpy as np

class Ward(gym.Wrapper):
    def reset(self, **options):
        observation, info = self.env.reset(**options)
        {reset}
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        {step}
        return observation, reward, terminated, truncated, info

def make(i):
    return Ward(gym.make("CartPole-v1"))
"""


@pytest.fixture
def ward(tmp_path, monkeypatch) -> Callable[..., Path]:
    """The folder of a site whose environment is the module with this source; other arguments change its files."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(step_times, "LONG_ENOUGH", 0.2)
    init.create(tmp_path / "wards", ["a"], "localhost:8443")
    home = tmp_path / "wards/a"

    def make(source: str = "", function: str = "make", **replaced: str) -> Path:
        if source:
            module = f"ward_of_check_{next(NUMBERS)}"
            (home / f"{module}.py").write_text(source)
            replace(home / "site.toml", '"CartPole-v1"', f'"{module}:{function}"')
        for file, change in replaced.items():
            for old, new in [change.split(" -> ")]:
                replace(home / f"{file}.toml", old, new)
        return home

    return make


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def look(home: Path) -> dict[str, Item]:
    """In this process, for environments that do not end it."""
    found = list(first_steps.look(sites.read(home), agreements.read(home / "federation.toml")))
    assert tuple(item.item for item in found) == NAMES
    assert all(item.do or "; " in item.found for item in found if item.result in (FAIL, WARN))
    return {item.item: item for item in found}


def results(found: dict[str, Item]) -> list[str]:
    return [found[name].result for name in NAMES]


def odd(reset: str = "pass", step: str = "pass") -> str:
    return WARD.format(reset=reset, step=step)


def test_an_environment_that_is_fine(ward):
    found = look(ward(odd()))
    assert results(found) == [OK] * 7
    assert found[METHOD].found == "fedavg can be built"
    assert found[SPACES].found == "those of federation.toml"
    assert "steps with finite observations and rewards" in found[STEPS].found


@pytest.mark.parametrize(
    ("source", "function", "words"),
    [
        ("import no_such_dependency", "make", "there is no module 'no_such_dependency' (looked in "),
        ("x = 1", "make", "has no make; correct site.toml"),
        ("make = 3", "make", "make is 3, expected a function; correct it"),
        ("import math\nmath.log(0)", "make", "importing it raised ValueError: math domain error ("),
        ("def make(:", "make", ".py, line 1); correct it there"),
        ("import sys\nsys.exit(3)", "make", "importing it raised SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported(ward, source, function, words):
    found = look(ward(source, function))
    assert results(found) == [OK, OK, FAIL, SKIPPED, SKIPPED, SKIPPED, SKIPPED]
    assert words in found[IMPORT].found


def test_a_module_that_is_missing(ward):
    home = ward(site='"CartPole-v1" -> "nowhere_ward.simulator:make"')
    found = look(home)
    assert results(found) == [OK, OK, FAIL, SKIPPED, SKIPPED, SKIPPED, SKIPPED]
    assert f"there is no module 'nowhere_ward' (looked in {home} and where Python is installed)" in found[IMPORT].found
    assert "install it there, or add its folder to `path` in site.toml" in found[IMPORT].found


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def make(i):\n    raise OSError('no licence')", "client 0: make_env raised OSError: no licence"),
        (
            "def make(i):\n    return None",
            "client 0: make_env returned NoneType, expected a gymnasium.Env; fix make_env",
        ),
        ("import sys\ndef make():\n    sys.exit(1)", "client 0: make_env raised SystemExit: 1"),
    ],
)
def test_a_function_that_makes_no_environment(ward, source, words):
    found = look(ward(source))
    assert results(found) == [OK, OK, OK, FAIL, SKIPPED, SKIPPED, SKIPPED]
    assert found[SPACES].found.startswith(words)


def test_spaces_that_differ(ward):
    found = look(ward(site="CartPole-v1 -> CliffWalking-v1"))
    assert results(found)[:4] == [OK, OK, OK, FAIL]
    assert "observations: type is discrete here and box in federation.toml" in found[SPACES].found
    assert "actions: n is 4 here and 2 in federation.toml" in found[SPACES].found
    assert "or agree on other spaces" in found[SPACES].do


def test_bounds_that_differ(ward):
    found = look(ward(federation="low = [-4.800000190734863, -> low = [-4.5,"))
    assert found[SPACES].found == (
        "observations: low is [-4.8, none, -0.418879, none] here and [-4.5, none, -0.418879, none] in federation.toml"
    )


def test_bounds_that_are_evened_out_may_differ(ward):
    home = ward(federation="low = [-4.800000190734863, -> low = [-4.5,")
    replace(home / "federation.toml", "rescale = false", "rescale = true")
    assert results(look(home)) == [OK] * 7


def test_spaces_that_are_not_agreed_on_are_printed(ward):
    """What is printed can be pasted."""
    home = ward(odd())
    file = home / "federation.toml"
    before, _, rest = file.read_text().partition("[spaces.observations]")
    file.write_text(before + rest[rest.index("[rules]") :])
    found = look(home)
    assert results(found)[:4] == [SKIPPED, OK, OK, FAIL]
    words, _, text = found[SPACES].do.partition("\n")
    assert words == "if everybody agrees on these, the operator adds them and hands the file out:"
    file.write_text(file.read_text() + text)
    assert results(look(home)) == [OK] * 7


@pytest.mark.parametrize(
    ("reset", "words"),
    [
        ("observation = observation * np.nan", "client 0, copy 0: observation [nan nan nan nan] is not finite"),
        ("raise RuntimeError('no bed')", "client 0: reset raised RuntimeError: no bed"),
        (
            "observation = observation[:2]",
            "client 0, copy 0: the observation of reset is an array of shape (2,), expected",
        ),
        ("return observation", "client 0: "),
    ],
)
def test_a_first_reset_that_is_wrong(ward, reset, words):
    found = look(ward(odd(reset=reset)))
    assert results(found) == [OK, OK, OK, OK, FAIL, SKIPPED, SKIPPED]
    assert found[RESET].found.startswith(words)
    assert found[RESET].do == "correct the environment; stepping it alone in Python shows a traceback"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("observation = observation * np.inf", "client 0, copy 0: the observation of step is an array of shape (4,): "),
        ("reward = float('nan')", "client 0, copy 0: reward nan is not finite"),
        ("raise RuntimeError('no\\nbed')", "client 0: step raised RuntimeError: no\nbed"),
        ("return observation, reward", "client 0: "),
    ],
)
def test_first_steps_that_are_wrong(ward, step, words):
    found = look(ward(odd(step=step)))
    assert results(found) == [OK, OK, OK, OK, OK, FAIL, SKIPPED]
    assert found[STEPS].found.startswith(words)


def test_an_environment_that_is_too_slow_for_the_deadline(ward):
    found = look(ward(odd(step="time.sleep(0.05)")))
    assert results(found) == [OK, OK, OK, OK, OK, WARN, OK]
    assert found[STEPS].found.endswith(" of simulation here, but the deadline is 120 s")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('"fedavg" -> "fedagv"', "there is no method 'fedagv'; did you mean fedavg?"),
        ('"fedavg" -> "nowhere_method:make"', "nowhere_method:make cannot be imported here"),
        ("# [privacy]\n# clip = 1.0\n# noise -> [privacy]\nclip = 1.0\nnoise", "building it raised ValueError: "),
    ],
)
def test_a_method_that_cannot_be_built(ward, change, words):
    found = look(ward(odd(), federation=change))
    assert results(found) == [FAIL, OK, OK, OK, OK, OK, SKIPPED]
    assert words in found[METHOD].found


def test_what_the_site_refuses(ward):
    found = look(ward(odd(), site="# smallest_noise -> smallest_noise"))
    assert results(found) == [OK, FAIL, OK, OK, OK, OK, SKIPPED]
    assert "smallest_noise" in found[REFUSALS].found
    replace(sites.read(ward()).files.settings, "smallest_noise = 0.3", 'algorithms = ["scaffold"]')
    assert results(look(ward())) == [OK] * 7


PARALLEL = """
import gymnasium as gym
import numpy as np
from pettingzoo import ParallelEnv

class Pair(ParallelEnv):
    metadata = {"name": "pair"}
    possible_agents = ["x", "y"]
    def __init__(self): self.agents = []
    def observation_space(self, agent): return gym.make("CartPole-v1").observation_space
    def action_space(self, agent): return gym.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return {a: np.zeros(4, np.float32) for a in self.agents}, {a: {} for a in self.agents}
    def step(self, actions):
        made = {a: np.zeros(4, np.float32) for a in self.agents}, dict.fromkeys(self.agents, 1.0)
        ended = dict.fromkeys(self.agents, False)
        return *made, ended, dict(ended), {a: {} for a in self.agents}

def make(i):
    return Pair()
"""


def test_kinds_are_not_mixed_up(ward):
    pytest.importorskip("pettingzoo")
    home = ward(PARALLEL)
    found = look(home)
    assert results(found)[2:] == [OK, FAIL, SKIPPED, SKIPPED, SKIPPED]
    assert found[SPACES].found.endswith(
        'makes a Pair with possible_agents, and site.toml says kind = "gymnasium"; write kind = "pettingzoo"'
    )
    replace(home / "site.toml", 'kind = "gymnasium"', 'kind = "pettingzoo"')
    assert results(look(home)) == [OK] * 7


def test_clients_after_the_first_are_opened_too(ward):
    """As `join` does: what it would stop for is a line here."""
    home = ward("import gymnasium\ndef make(i):\n    return gymnasium.make(['CartPole-v1', 'CliffWalking-v1'][i])")
    replace(home / "site.toml", "clients = 1", "clients = 2")
    replace(home / "federation.toml", "a = 1", "a = 2")
    found = look(home)
    assert results(found) == [OK, OK, OK, OK, OK, OK, FAIL]
    assert found[CLIENTS].found.startswith("client 1: observations: type is discrete here and box in federation.toml")


def test_episodes_that_agents_cannot_share(ward):
    pytest.importorskip("pettingzoo")
    home = ward(PARALLEL, site='kind = "gymnasium" -> kind = "pettingzoo"', federation="episodes = 10 -> episodes = 9")
    found = look(home)
    assert results(found) == [OK, OK, OK, OK, OK, OK, FAIL]
    assert found[CLIENTS].found.endswith(
        "has 2 agents, each of whose episodes counts; federation.toml has episodes = 9, so agree on a multiple of 2"
    )


def test_agents_whose_spaces_are_not_agreed_on(ward):
    """They are printed; there is nothing to try until they are agreed on."""
    pytest.importorskip("pettingzoo")
    home = ward(PARALLEL, site='kind = "gymnasium" -> kind = "pettingzoo"')
    file = home / "federation.toml"
    before, _, rest = file.read_text().partition("[spaces.observations]")
    file.write_text(before + rest[rest.index("[rules]") :])
    assert results(look(home)) == [SKIPPED, OK, OK, FAIL, SKIPPED, SKIPPED, SKIPPED]


def test_a_site_that_names_no_environment(ward):
    found = look(ward(site='"CartPole-v1" -> ""'))
    assert results(found) == [OK, OK, SKIPPED, SKIPPED, SKIPPED, SKIPPED, FAIL]
    assert 'names no environment; add environment = "module:function", or an id' in found[CLIENTS].found


@pytest.mark.parametrize("name", [":make", "ward:"])
def test_half_a_name(ward, name):
    found = look(ward(site=f'"CartPole-v1" -> "{name}"'))
    assert found[IMPORT].found == f'environment = {name!r}: expected "module:function"; correct site.toml'


def test_an_environment_that_hangs(ward):
    """In a process of its own, which is ended with all that it has started."""
    home = ward(odd(reset="import subprocess; subprocess.Popen(['sleep', '4321']); time.sleep(3600)"))
    found = {item.item: item for item in check_environment.items(home, patience=15.0)}
    assert results(found) == [OK, OK, OK, OK, FAIL, SKIPPED, SKIPPED]
    assert found[RESET].found == "not finished after 15 s"
    assert found[RESET].do == "find out what the environment waits for: a licence, a display, another program"
    assert found[STEPS].found == "not checked: the process that tried it is gone"
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"sleep\x004321" in line for line in lines)


def test_an_environment_that_ends_the_process(ward):
    """What it prints on stdout disturbs nothing; the last line on stderr is passed on."""
    step = "print('[[[', '{', flush=True); print('out of beds', file=sys.stderr, flush=True); os._exit(7)"
    found = {item.item: item for item in check_environment.items(ward(odd(step=step)))}
    assert results(found) == [OK, OK, OK, OK, OK, FAIL, SKIPPED]
    assert (
        found[STEPS].found
        == "the process that tried it ended with exit code 7; the last line on stderr is: out of beds"
    )
