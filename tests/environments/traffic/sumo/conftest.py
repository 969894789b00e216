"""What all tests of traffic need: environments that are closed afterwards, and epochs driven in them."""

import numpy as np
import pytest


@pytest.fixture
def opened():
    """`opened(Merge, warm_up=0)`: an environment, closed afterwards."""
    envs = []

    def make(kind, *args, **kwargs):
        envs.append(kind(*args, **kwargs))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


@pytest.fixture
def driven():
    """`driven(env, seed)`: the outcomes of an epoch in which every agent accelerates as hard as it may."""

    def outcomes(env, seed):
        env.begin(seed)
        found = []
        while env.agents:
            found.append(env.advance(np.ones(len(env.possible_agents))))
        return found

    return outcomes


@pytest.fixture
def mean_speed(driven):
    """`mean_speed(env, seeds)`: over such epochs, in m/s."""
    return lambda env, seeds: np.mean([outcome.mean_speed for seed in seeds for outcome in driven(env, seed)])
