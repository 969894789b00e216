"""What a method and a federation are, written down: every setting under its name, the same in every process."""

import functools
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium as gym
import jax
import numpy as np
import optax
import pytest
import tomli_w
from gymnasium.envs.classic_control import PendulumEnv
from support.federations import federation

import fedrl
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.environments.tabular import random_mdp
from fedrl.evaluation import exact_return, sampled_return
from fedrl.learners.optimizers import adam, constant, sgd
from fedrl.learners.ppo import ppo
from fedrl.records.description import describe
from fedrl.records.identity import differences, of_run, versions
from fedrl.selection.participation import uniform

GRAVITY = 9.8


def differ(one, other) -> list[str]:
    return list(differences({"it": describe(one)}, {"it": describe(other)}))


def method(**changes):
    return pavg(**({"eta": 0.1, "local_steps": 3, "horizon": 8} | changes))


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (method(), method(eta=5.0), "eta is 0.1 there, 5.0 here"),
        (method(), method(horizon=9), "horizon is 8 there, 9 here"),
        (method(selection=uniform(2)), method(selection=uniform(3)), "clients is 2 there, 3 here"),
        (
            fedavg(ppo(learning_rate=constant(1e-3))),
            fedavg(ppo(learning_rate=constant(1e-4))),
            "learning_rate is 0.001 there, 0.0001 here",
        ),
        (fedavg(ppo(epochs=4)), fedavg(ppo(epochs=5)), "epochs is 4 there, 5 here"),
        (fedavg(ppo(steps=64)), fedavg(ppo(steps=128)), "steps is 64 there, 128 here"),
        (ppo(optimizer=sgd(0.5)), ppo(optimizer=sgd(0.9)), "decay is 0.5 there, 0.9 here"),
        (ppo(optimizer=sgd(0.5)), ppo(optimizer=adam()), "scale_by_adam"),
        (optax.adamw(1e-3), optax.adamw(1e-3, weight_decay=0.5), "0.0001 there, 0.5 here"),
        (random_mdp.dense(3, 2, 0.5), random_mdp.dense(3, 2, 0.6), "kappa is 0.5 there, 0.6 here"),
        (sampled_return(2), sampled_return(3), "episodes is 2 there, 3 here"),
        (sampled_return(2), exact_return(), "exact_return here"),
    ],
)
def test_every_setting_counts_and_is_named(one, other, names):
    assert not differ(one, one)
    assert names in "; ".join(differ(one, other))


def test_the_settings_of_a_federation():
    fewer = federation(3)
    assert not differ(federation(4), federation(4))
    assert any("env_params.kernel is 'float32[4, 4, 3, 4] " in it for it in differ(federation(4), fewer))
    assert differ(federation(4), federation(4, gamma=0.9)) == ["it.environment.gamma is 0.8 there, 0.9 here"]
    weighted = federation(3, weight=np.array([1.0, 2.0, 3.0]))
    assert differ(fewer, weighted) == ["it.weight is not set there, 'float64[3] [1.0, 2.0, 3.0]' here"]
    one = federation(4)
    other = fedrl.Federation(
        one.environment, one.env_params._replace(reward=one.env_params.reward.at[0, 0, 0].add(1e-6))
    )
    assert [it.split(" is ")[0] for it in differ(one, other)] == ["it.env_params.reward"]


def maker(mass: float, **more):
    def make_env(client_id, length=more.get("length", 1.0)):
        return GRAVITY * mass * length * helper(client_id)

    return make_env


def helper(client_id):
    """What the user's own function calls."""
    return client_id + 1


def test_functions_of_the_user_by_what_they_close_over_and_by_their_code(monkeypatch):
    assert describe(maker(1.0))["GRAVITY"] == 9.8
    assert differ(maker(1.0), maker(2.0)) == ["it.mass is 1.0 there, 2.0 here"]
    assert differ(maker(1.0), maker(1.0, length=3.0)) == ["it.length is 1.0 there, 3.0 here"]
    assert differ(lambda i: i + 1, lambda i: i + 2) == ["the code of it differs"]
    before = describe(maker(1.0))
    monkeypatch.setitem(globals(), "GRAVITY", 1.6)
    assert list(differences({"it": before}, {"it": describe(maker(1.0))})) == ["it.GRAVITY is 9.8 there, 1.6 here"]
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "helper", lambda client_id: client_id + 2)
    assert list(differences({"it": before}, {"it": describe(maker(1.0))})) == ["the code of it differs"]


def test_code_that_somebody_has_deleted_is_not_compared():
    """So that a run goes on with an environment that was fixed; whatever else differs still counts."""
    there, here = {"it": {"function": "f", "g": 1}}, {"it": {"function": "f", "code": "python 3.11: bb", "g": 2}}
    assert list(differences(there, here)) == ["it.g is 1 there, 2 here"]
    assert list(differences(here, there)) == [
        "it.code is 'python 3.11: bb' there, not set here",
        "it.g is 2 there, 1 here",
    ]


def test_code_is_compared_between_the_same_pythons_only():
    one, other = (
        {"it": {"function": "f", "code": "python 3.11: aa"}},
        {"it": {"function": "f", "code": "python 3.13: bb"}},
    )
    assert not list(differences(one, other))


class Maker:
    """An object of the user's that makes environments."""

    def __init__(self, mass: float):
        self.mass, self.simulator = mass, object()

    def __call__(self, client_id: int) -> float:
        return self.mass


class Pair(NamedTuple):
    first: int
    second: object = None


@dataclass
class Named:
    name: str


def test_all_kinds_of_things():
    assert differ(Maker(1.0), Maker(2.0)) == ["it.mass is 1.0 there, 2.0 here"]
    assert differ(Maker(1.0).__call__, Maker(2.0).__call__) == ["it.of.mass is 1.0 there, 2.0 here"]
    assert differ(functools.partial(helper, 1), functools.partial(helper, 2)) == ["it.0 is 1 there, 2 here"]
    assert differ(jax.jit(maker(1.0)), jax.jit(maker(2.0))) == ["it.mass is 1.0 there, 2.0 here"]
    assert differ(functools.cache(maker(1.0)), functools.cache(maker(2.0))) == ["it.mass is 1.0 there, 2.0 here"]
    assert differ(Pair(1), Pair(1, 3)) == ["it.second is not set there, 3 here"]
    assert differ(Named("a"), Named("b")) == ["it.name is 'a' there, 'b' here"]
    assert differ(jax.random.key(1), jax.random.key(2))[0].startswith("it is 'key uint32[2] [0, 1]' there")
    assert differ(np.array([1, 2], np.int32), np.array([1, 2], np.int64))
    assert differ(list(range(1000)), list(range(1, 1001)))[0].startswith("it is '1000 items, ")
    loop: list = [1]
    loop.append(loop)
    assert describe(loop) == [1, "itself"]
    for value in (object(), np.random.default_rng(0), jax, {1, 2}, b"bytes", 1j, np.add, {"a": None}, [None], ()):
        text = tomli_w.dumps({"it": describe(value)})
        assert " at 0x" not in text
        assert not list(differences(tomllib.loads(text), {"it": describe(value)}))


def test_an_object_of_the_users_that_holds_itself_through_a_function():
    def again(n):
        return again(n - 1) if n else 0

    assert describe(again)["again"] == "itself"


def test_a_factory_may_say_itself_what_it_was_given():
    """The attribute `arguments` of what fedrl's own factories return names every setting as the user wrote it."""
    learner = ppo()
    learner.arguments = ("ppo", {"learning_rate": 1e-3, "policy": None})
    assert describe(fedavg(learner))["learner"] == {"function": "ppo", "learning_rate": 1e-3}


def test_a_run_can_be_read_and_is_the_same_after_a_trip_through_toml():
    run = of_run(method(), federation(4), exact_return(), seeds=range(3, 5), eval_every=2, engine="exact")
    text = tomli_w.dumps(run)
    assert not list(differences(tomllib.loads(text), run))
    assert text.startswith(
        'kind = "train"\nseed = 3\nseeds = 2\neval_every = 2\nengine = "exact"\nprecision = "float32"\n'
    )
    assert re.search(r"(?m)^\[method.*\]\nfunction = .*\neta = 0\.1\nlocal_steps = 3\n", text)
    assert run["federation"]["clients"] == 4
    assert len(text) < 2000
    assert versions()["jax"] == jax.__version__


def test_a_constant_rate_is_its_number():
    number, schedule = (fedavg(ppo(learning_rate=learning_rate)) for learning_rate in (1e-3, constant(1e-3)))
    assert not differ(number, schedule)
    assert differ(number, fedavg(ppo(learning_rate=constant(1e-4)))) == [
        "it.learner.learning_rate is 0.001 there, 0.0001 here"
    ]


def test_whole_numbers_of_numpy_do_for_counts():
    where = fedrl.Federation(federation(2).environment, random_mdp.dense(4, 3, 0.5), clients=np.int64(3))
    run = of_run(method(), where, exact_return(), seeds=range(1), eval_every=np.int64(2), engine="exact")
    assert "clients = 3\n" in tomli_w.dumps(run)
    assert tomllib.loads(tomli_w.dumps(run))["eval_every"] == 2


def test_the_recipe_comes_first():
    there, here = {"config": {"a": 1}, "recipe": "x", "seed": 0}, {"config": {"a": 2}, "recipe": "y", "seed": 1}
    assert next(differences(there, here)) == "recipe is 'x' there, 'y' here"


class Other(PendulumEnv):
    def step(self, action):
        seen, reward, done, cut, info = super().step(action)
        return seen, -reward, done, cut, info


def test_what_an_id_of_gymnasium_stands_for(monkeypatch):
    def registered(entry_point, **kwargs):
        monkeypatch.delitem(gym.registry, "My-v0", raising=False)
        gym.register("My-v0", entry_point=entry_point, max_episode_steps=10, kwargs=kwargs)
        return {"it": describe(fedrl.gymnasium("My-v0", clients=2).environment.open)}

    by_name = registered("gymnasium.envs.classic_control:PendulumEnv", g=9.0)
    assert registered(PendulumEnv, g=9.0) == by_name
    found = list(differences(by_name, registered(PendulumEnv, g=1.0)))
    assert found == ["it.make_copy.make_env.kwargs.g is 9.0 there, 1.0 here"]
    own = registered(f"{__name__}:Other", g=9.0)
    assert own["it"]["make_copy"]["make_env"]["entry_point"]["code"].startswith("python 3.")
    assert own == registered(Other, g=9.0)
    monkeypatch.setattr(Other, "step", lambda self, action: None)
    assert list(differences(own, registered(Other, g=9.0))) == ["the code of it.make_copy.make_env.entry_point differs"]
    gym.registry.pop("My-v0")


def test_lenient_overlooks_what_only_one_side_knows():
    there, here = {"a": 1, "b": {"old": 2, "c": 3}}, {"a": 1, "b": {"new": 4, "c": 5}}
    assert list(differences(there, here, lenient=True)) == ["b.c is 3 there, 5 here"]
    assert len(list(differences(there, here))) == 3


def test_two_processes_say_the_same(tmp_path):
    """Whatever the order of their sets and dicts, wherever their objects are."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, tomli_w, gymnasium, fedrl\n"
        "from fedrl.algorithms.fedavg import fedavg\n"
        "from fedrl.learners.ppo import ppo\n"
        "from fedrl.records.identity import of_run\n"
        "from fedrl.evaluation import sampled_return\n"
        "KINDS = {'a', 'b', 'c'}\n"
        "def make_env(client_id):\n"
        "    length = 20 if client_id in {1, 2, 3} or str(client_id) in {'x', 'y', 'z'} else len(KINDS)\n"
        "    return gymnasium.make('CartPole-v1', max_episode_steps=length)\n"
        "where = fedrl.gymnasium(make_env, clients=2)\n"
        "print(tomli_w.dumps(of_run(fedavg(ppo()), where, sampled_return(2),\n"
        "      seeds=range(1), eval_every=1, engine='exact')))\n"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    said = {
        seed: subprocess.run(
            [sys.executable, str(script)], env=os.environ | path | {"PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert said["1"] == said["2"]
    assert "KINDS = [" in said["1"]
    assert "[federation.environment.open.make_copy.make_env]" in said["1"]
