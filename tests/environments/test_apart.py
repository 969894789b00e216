"""Environments in processes of their own (about 3 s)."""

from functools import partial

import numpy as np
import pytest

from fedrl.environments.apart import Apart, Gone
from fedrl.environments.traffic import FigureEight, Merge


def test_two_at_once():
    envs = [Apart(partial(FigureEight, horizon=20)), Apart(partial(Merge, warm_up=50))]
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
        assert env._process.exitcode == 0


def test_errors_come_across():
    env = Apart(FigureEight)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="vehicle_1: action nan"):
        env.step({agent: np.array([np.nan]) for agent in env.agents})
    env.step({agent: np.ones(1) for agent in env.agents})
    env._process.kill()
    env._process.join()
    with pytest.raises(Gone, match=r"own process is gone \(exit code -9\): make a new one"):
        env.reset(seed=0)
    with pytest.raises(ValueError, match="driver='nobody'"):
        Apart(partial(FigureEight, "nobody"))
