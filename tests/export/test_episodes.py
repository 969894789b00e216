"""Episodes that an exported policy plays."""

import gymnasium as gym
import jax
import numpy as np
import pytest

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.environments.errors import EnvironmentFailed
from fedrl.export.check import NotPlayed
from fedrl.export.episodes import episodes
from fedrl.federations.federation import Federation
from fedrl.learners.ppo import ppo


def test_episodes_in_gymnasium_see_its_own_observations():
    """Also where policies see other observations than the environment gives: rescaled ones."""
    federation = fedrl.gymnasium(lambda client: gym.make("Pendulum-v1", g=9.0 + client), 2, rescale=True)
    play = episodes(federation, client_of(federation))
    seen = []

    def act(observations):
        seen.append(observations)
        return np.zeros((len(observations), 1), np.float32)

    steps, mean_return = play(act)
    assert steps == len(seen) == 10 * 200
    assert mean_return < 0
    assert np.abs(np.stack(seen)[..., 2]).max() > 1  # the speed as it is


class Worn(gym.Wrapper):
    """Works for a while: long enough to train, not for ten episodes."""

    def step(self, action):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps > 300:
            raise OSError("no power")
        return super().step(action)


def test_why_there_are_none():
    worn = fedrl.gymnasium(lambda client: Worn(gym.make("Pendulum-v1")), 2)
    with pytest.raises(EnvironmentFailed, match="client 1: step raised OSError: no power"):
        episodes(worn, client_of(worn))(lambda observations: np.zeros((len(observations), 1), np.float32))
    shared = Federation(worn.environment._replace(agents=2), np.zeros(2, np.int32))
    with pytest.raises(NotPlayed, match="share one environment"):
        episodes(shared, client_of(worn))


def client_of(federation):
    """Its second client."""
    algorithm = fedavg(ppo(steps=20, num_envs=1))(federation)
    clients = federation.enrol(federation.shared(), jax.random.key(0), algorithm)
    rows = federation.rows(federation.shared(), clients, np.array([1], np.int32))
    return rows._replace(id=rows.id[0], env_params=rows.env_params[0])
