"""Environments in processes of their own (about 15 s)."""

import signal
import subprocess
import sys
import time
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Box
from pettingzoo import ParallelEnv

from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.spaces import describe
from fedrl.environments.subprocess_env import EnvProcessDied, SubprocessEnv
from fedrl.environments.traffic.sumo import FigureEight, Merge
from fedrl.federations.pettingzoo_envs import PettingZooSimulator


def test_two_at_once():
    envs = [SubprocessEnv(partial(FigureEight, horizon=20)), SubprocessEnv(partial(Merge, warm_up=50))]
    for env in envs:
        env.reset(seed=0)
    for env in envs:
        observations, *_ = env.step({agent: np.ones(1) for agent in env.agents})
        assert list(observations) == env.agents == env.possible_agents
    assert len(envs[0].call("vehicles")) == 14
    assert envs[1].call("v_ref") == 25.0
    for _ in range(19):
        envs[0].step({agent: np.ones(1) for agent in envs[0].agents})
    assert envs[0].agents == []
    for env in envs:
        env.close()
        env.close()
        assert env._process.returncode == 0


def test_errors_come_across():
    env = SubprocessEnv(FigureEight)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="vehicle_1: action nan"):
        env.step({agent: np.array([np.nan]) for agent in env.agents})
    env.step({agent: np.ones(1) for agent in env.agents})
    env._process.kill()
    env._process.wait()
    with pytest.raises(EnvProcessDied, match=r"process has died \(exit code -9\); make a new one"):
        env.reset(seed=0)
    with pytest.raises(ValueError, match="driver='nobody'"):
        SubprocessEnv(partial(FigureEight, "nobody"))


def test_one_that_was_interrupted_is_not_asked_again(monkeypatch):
    env = SubprocessEnv(partial(FigureEight, horizon=20))

    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(env._line, "recv_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            env.reset(seed=0)
    with pytest.raises(EnvProcessDied, match="exit code 0"):
        env.step({})


class Stuck(ParallelEnv):
    """Hangs at its second step."""

    metadata: ClassVar[dict] = {}

    def __init__(self, hangs: bool = True):
        self.possible_agents, self.agents, self.steps, self.hangs = ["one"], ["one"], 0, hangs

    def observation_space(self, agent):
        return Box(-1, 1, (1,))

    def action_space(self, agent):
        return Box(-1, 1, (1,))

    def reset(self, seed=None, options=None):
        self.steps = 0
        return {"one": np.zeros(1, np.float32)}, {"one": {}}

    def step(self, actions):
        self.steps += 1
        if self.steps == 2 and self.hangs:
            time.sleep(3600)
        at = np.array([self.steps / 5], np.float32)
        return {"one": at}, {"one": 1.0}, {"one": False}, {"one": False}, {"one": {}}


LINE = describe(Box(-1, 1, (1,)))


@pytest.mark.usefixtures("travelling")
def test_a_step_that_hangs():
    """Given up twice, with its epoch repeated in between; then it is a named error."""
    began = time.monotonic()
    copies = PettingZooSimulator(Stuck, ["one"], 1, 5, LINE, LINE, deadline=1.0)
    copies.reset(np.array([0]), np.array([7]))
    copies.step(np.zeros((1, 1, 1), np.float32))
    first = copies._envs[0]._process
    with pytest.raises(
        EnvironmentFailed, match="copy 0 died 2 times in a row after 1 steps .*no result within the deadline of 1 s"
    ):
        copies.step(np.zeros((1, 1, 1), np.float32))
    assert first.returncode == -9
    assert time.monotonic() - began < 60


@pytest.mark.usefixtures("travelling")
def test_a_process_that_is_stopped():
    """SIGSTOP: another takes over, and its epoch goes on as if nothing had been."""
    copies = PettingZooSimulator(partial(Stuck, False), ["one"], 1, 5, LINE, LINE, deadline=1.0)
    copies.reset(np.array([0]), np.array([7]))
    copies.step(np.zeros((1, 1, 1), np.float32))
    stopped = copies._envs[0]._process
    stopped.send_signal(signal.SIGSTOP)
    seen, *_ = copies.step(np.zeros((1, 1, 1), np.float32))
    assert seen[0, 0, 0] == np.float32(0.4)
    assert stopped.returncode == -9
    copies.close()


WALK = """
import os
import numpy as np
from gymnasium.spaces import Box
from pettingzoo import ParallelEnv

class Walk(ParallelEnv):
    metadata = {}
    possible_agents = ["left", "right"]

    def __init__(self):
        self.agents, self.steps = [], 0
        self.observation_spaces = dict.fromkeys(self.possible_agents, Box(-1, 1, (1,)))
        self.action_spaces = dict(self.observation_spaces)

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        print("said by the environment", flush=True)
        os.system("echo said by its child")
        self.agents, self.steps = list(self.possible_agents), 0
        return dict.fromkeys(self.agents, np.zeros(1, np.float32)), dict.fromkeys(self.agents, {})

    def step(self, actions):
        here, self.steps = self.agents, self.steps + 1
        self.agents = [] if self.steps == 5 else here
        at, over = np.array([self.steps / 5], np.float32), self.steps == 5
        earned = {agent: float(action[0]) for agent, action in actions.items()}
        return dict.fromkeys(here, at), earned, dict.fromkeys(here, False), dict.fromkeys(here, over), {}

    def close(self):
        open("closed", "a").write("x")
"""

TRAINS = """
import fedrl
from fedrl.algorithms.fmarl import fmarl
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.mlp import gaussian_mlp
from fedrl.evaluation import sampled_return

print_nothing = lambda *row: None
federation = fedrl.pettingzoo(Walk, max_episode_steps=5)
method = fmarl(gradient_learner(reinforce(horizon=5, batch=2), eta=1e-3, local_steps=1, policy=gaussian_mlp(4)), tau=1)
run = fedrl.train(method, federation, rounds=1, engine=one_at_a_time(), evaluation=sampled_return(1), callback=print_nothing)
print(len(run.rows), run.returns.shape)
"""

WAITS = """
from fedrl.environments.subprocess_env import SubprocessEnv

env = SubprocessEnv(Walk)
env.reset(seed=0)
print("ready", flush=True)
input()
"""


def script(tmp_path, text):
    (tmp_path / "script.py").write_text(WALK + text)
    return subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_script_needs_no_guard(tmp_path):
    """It is read once, its environment travels whole, and what that prints stays out of its output."""
    running = script(tmp_path, TRAINS)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert out == "2 (1, 2)\n"
    said = ("said by the environment", "said by its child")
    assert all(words in err for words in said)
    assert not err.replace(said[0], "").replace(said[1], "").strip()  # processes may write into each other's lines


@pytest.mark.parametrize("ending", ["killed", "at its end"])
def test_it_ends_with_its_parent(tmp_path, ending):
    """The environment holds the parent's stderr open, which is therefore read to its end only when it is gone."""
    running = script(tmp_path, WAITS)
    assert running.stdout.readline() == "ready\n"
    if ending == "killed":
        running.kill()
    running.communicate("\n" if ending == "at its end" else None, timeout=20)
    assert running.returncode == (-9 if ending == "killed" else 0)
    assert (tmp_path / "closed").read_text() == "x"
