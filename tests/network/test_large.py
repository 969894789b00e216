"""A policy of 240 MB travels in pieces through the proxy and Flower, there and back (3 minutes)."""

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.proxied import needs_nginx
from support.replays import ending
from support.served import served

pytestmark = needs_nginx
STATES = 15_000_000
AGREED = {
    "name": "hall", "rounds": 2, "seed": 5, "max_episode_steps": 4, "episodes": 1,
    "spaces": {"observations": {"type": "discrete", "n": STATES}, "actions": {"type": "discrete", "n": 4}},
    "rules": {"quorum": 2, "deadline": 300.0, "patience": 300.0},
    "sites": {"a": 1, "b": 1}, "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
}  # fmt: skip
MODULE = f'''import gymnasium


class Hall(gymnasium.Env):
    """A hall so long that a table of it is large; going on pays."""

    observation_space, action_space = gymnasium.spaces.Discrete({STATES}), gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers({STATES} - 10))
        return self.place, {{}}

    def step(self, action):
        self.place += int(action == 0)
        return self.place, float(action == 0), False, False, {{}}


def make_env():
    return Hall()
'''


def make(site: str):
    found: dict = {}
    exec(compile(MODULE, "hall.py", "exec"), found)
    return found["make_env"]()


def test_a_policy_of_240_mb(tmp_path):
    with served(tmp_path, AGREED, {"a": MODULE, "b": MODULE}, seed=5) as one:
        one.start_all()
        one.await_round(0, 300)
        one.finish(600)
        assert one.left_out() == []
        assert (one.server.run / "policy.safetensors").stat().st_size > 4 * 4 * STATES
        assert ending(one.server.run) == ending(one.simulate(tmp_path / "here", make=make))
