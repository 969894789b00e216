"""PettingZoo environments as federations, on SUMO itself: they train, and killed processes change nothing (about 30 s)."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest
from pettingzoo.utils import ParallelEnv

import fedrl
from fedrl.algorithms.fmarl import fmarl
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.traffic.sumo.figure_eight import FigureEight
from fedrl.evaluation import sampled_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.mlp import mlp
from fedrl.rollouts import host

LIMIT = 30
METHOD = fmarl(gradient_learner(reinforce(horizon=20, batch=1), eta=1e-3, local_steps=1, policy=mlp(4)), tau=2)


pytestmark = pytest.mark.usefixtures("travelling")


@pytest.fixture(scope="module")
def eight() -> fedrl.Federation:
    return fedrl.pettingzoo(lambda: FigureEight(horizon=LIMIT), max_episode_steps=LIMIT, gamma=0.9)


def train(federation: fedrl.Federation, rounds: int = 3, **options) -> fedrl.Run:
    look = sampled_return(1, per_step=True)
    return fedrl.train(
        METHOD, federation, rounds=rounds, engine=one_at_a_time(), evaluation=look, eval_every=2, **options
    )


@pytest.fixture(scope="module")
def undisturbed(eight) -> fedrl.Run:
    return train(eight)


def same(one: fedrl.Run, other: fedrl.Run) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(*(jax.tree.leaves(x.theta) for x in (one, other)), strict=True))


def test_it_trains(eight, undisturbed):
    assert eight.count == eight.environment.agents == 7
    assert undisturbed.rows[-1]["env_steps"] == 3 * 2 * 20 * 7
    assert (undisturbed.returns > 0).all()  # normalised average speed
    assert np.ptp(undisturbed.returns) == 0.0
    assert undisturbed.rows[-1]["train/update_norm"] > 0


def test_killed_processes_are_replaced_and_their_epochs_repeated(eight, undisturbed, monkeypatch):
    """Before every 37th step of SUMO its process is killed, also while it is catching up."""
    from fedrl.federations import pettingzoo_envs

    steps, killed, plainly = [0], [0], pettingzoo_envs.PettingZooSimulator._send

    def dangerous(self, copy, actions):
        steps[0] += 1
        if steps[0] % 37 == 0:
            killed[0] += 1
            os.kill(self._envs[copy]._process.pid, signal.SIGKILL)
        return plainly(self, copy, actions)

    monkeypatch.setattr(pettingzoo_envs.PettingZooSimulator, "_send", dangerous)
    assert same(train(eight), undisturbed)
    assert killed[0] >= 4


def test_stopped_and_resumed(eight, undisturbed, tmp_path):
    """In the middle of an epoch, and with a simulator that knows nothing of it."""
    train(eight, rounds=1, out=tmp_path)
    host.close_all()
    assert same(train(eight, out=tmp_path), undisturbed)


class Leaving(ParallelEnv):
    """One of two agents leaves early."""

    metadata = {}  # noqa: RUF012
    possible_agents = ["left", "right"]  # noqa: RUF012

    def observation_space(self, agent):
        from gymnasium.spaces import Box

        return Box(-1, 1, (2,))

    def action_space(self, agent):
        from gymnasium.spaces import Discrete

        return Discrete(2 if agent == "left" else self.choices)

    def __init__(self, choices: int = 2):
        self.choices, self.agents = choices, self.possible_agents
        self.observation_spaces = {agent: self.observation_space(agent) for agent in self.agents}
        self.action_spaces = {agent: self.action_space(agent) for agent in self.agents}

    def reset(self, seed=None, options=None):
        return {agent: np.zeros(2, np.float32) for agent in self.agents}, {}

    def step(self, actions):
        return {"left": np.zeros(2, np.float32)}, {"left": 1.0}, {"left": False}, {"left": False}, {}


class Noting(Leaving):
    """Nobody leaves; every reset is noted with its process, and a step waits until `num_envs` processes are at it."""

    def __init__(self, folder: Path, num_envs: int = 1):
        super().__init__()
        self.folder, self.num_envs, self.steps = folder, num_envs, 0

    def reset(self, seed=None, options=None):
        with (self.folder / "resets").open("a") as file:
            file.write(f"{os.getpid()}\n")
        self.steps = 0
        return super().reset(seed, options)

    def step(self, actions):
        self.steps += 1
        (self.folder / f"step-{self.steps}-{os.getpid()}").touch()
        given_up = time.monotonic() + 20.0
        while len(list(self.folder.glob(f"step-{self.steps}-*"))) < self.num_envs:
            assert time.monotonic() < given_up, "the others have not been told to step"
            time.sleep(0.01)
        here = self.agents
        seen = dict.fromkeys(here, np.full(2, self.steps / 10, np.float32))
        return seen, dict.fromkeys(here, 1.0), dict.fromkeys(here, False), dict.fromkeys(here, False), {}


def test_training_goes_on_where_it_was_before_a_measurement(tmp_path):
    """160 steps in epochs of 30 are six resets of the process that trains, one for each epoch begun."""
    train(fedrl.pettingzoo(lambda: Noting(tmp_path), max_episode_steps=30), rounds=4)
    resets = Counter((tmp_path / "resets").read_text().split())
    measurements = 3  # at the beginning, after two rounds and after four; each is one epoch
    assert sorted(resets.values()) == [measurements, 1 + 4 * 2 * 20 // 30]


def test_seeds_do_not_take_each_others_places(tmp_path):
    """Played in turns, each goes on in its own process: nothing is repeated."""
    train(fedrl.pettingzoo(lambda: Noting(tmp_path), max_episode_steps=30), rounds=4, seeds=2)
    resets = Counter((tmp_path / "resets").read_text().split())
    each = 1 + 4 * 2 * 20 // 30
    assert sorted(resets.values()) == [each, each, 2 * 3]


def test_copies_step_at_the_same_time(tmp_path):
    environment = fedrl.pettingzoo(lambda: Noting(tmp_path, num_envs=3), max_episode_steps=5).environment
    stage = environment.open(0, np.int32(0), 3)
    try:
        stage.reset(np.arange(3), np.arange(3, dtype=np.uint32))
        seen, reward, terminated, truncated = stage.step(np.zeros((3, 2), np.int32))
    finally:
        stage.close()
    assert seen.shape == (3, 2, 2)
    assert reward.tolist() == [[1.0, 1.0]] * 3
    assert not (terminated | truncated).any()


def test_faults_are_named():
    with pytest.raises(EnvironmentFailed, match="right has the spaces .* expected those of left"):
        fedrl.pettingzoo(lambda: Leaving(3), max_episode_steps=5)
    two = fedrl.pettingzoo(Leaving, max_episode_steps=5)
    with pytest.raises(EnvironmentFailed, match="right left the episode before its end"):
        train(two, rounds=1)
    with pytest.raises(ValueError, match="expected max_episode_steps >= 1"):
        fedrl.pettingzoo(Leaving, max_episode_steps=0)
