"""Three machines with different control panels: the private environments of three organisations.

All bring a value to zero and hold it there; which action raises it differs, and how far. An observation says which machine
it is, so one policy can serve all; whoever has seen only one machine presses the wrong buttons on the others. Each module is
written to one site's folder, under a name of its own.
"""

SOURCE = '''"""The simulator of site {site}, which nobody else has."""

import gymnasium
import numpy as np


class {name}(gymnasium.Env):
    panel, kind, drift = {panel}, {kind}, {drift}

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(-2.0, 2.0, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.value = self.np_random.uniform(-1.5, 1.5)
        return self.observation(), {{}}

    def step(self, action):
        moved = 0.2 * self.panel[int(action)] + self.drift + 0.02 * self.np_random.normal()
        self.value = float(np.clip(self.value + moved, -2.0, 2.0))
        return self.observation(), 1.0 - abs(self.value), False, False, {{}}

    def observation(self):
        return np.array([self.value, *(float(kind == self.kind) for kind in range(3))], np.float32)


def make_env():
    return {name}()
'''
MODULES = {
    "press": SOURCE.format(site="press", name="Press", panel=(-1, 0, 1), kind=0, drift=0.0),
    "lathe": SOURCE.format(site="lathe", name="Lathe", panel=(1, -1, 0), kind=1, drift=0.03),
    "oven": SOURCE.format(site="oven", name="Oven", panel=(0, 1, -1), kind=2, drift=-0.05),
}
SPACES = {
    "observations": {"type": "box", "shape": [4], "low": -2.0, "high": 2.0, "dtype": "float32"},
    "actions": {"type": "discrete", "n": 3, "start": 0, "dtype": "int64"},
}
STEPS = 30  # of an episode


def make(site: str):
    """The environment of a site, here."""
    found: dict = {}
    exec(compile(MODULES[site], f"{site}.py", "exec"), found)
    return found["make_env"]()
