"""A user's environment that draws itself in NumPy, and variants of it that are harder to draw."""

import gymnasium as gym
import numpy as np


class Tank(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, inflow: float = 0.03, render_mode=None):
        self.inflow, self.render_mode = inflow, render_mode
        self.observation_space = gym.spaces.Box(0.0, 2.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = float(self.np_random.uniform(0.4, 0.6))
        return np.array([self.level], np.float32), {}

    def step(self, action):
        self.level = float(np.clip(self.level + self.inflow - 0.1 * int(action), 0.0, 2.0))
        return np.array([self.level], np.float32), 1.0 - abs(self.level - 0.5), False, False, {}

    def render(self):
        picture = np.full((48, 64, 3), 255, np.uint8)
        picture[48 - int(20 * self.level) :, 10:50] = (0, 114, 178)
        return picture


class Dark(Tank):
    metadata = {"render_modes": ["human"]}  # noqa: RUF012


class Broken(Tank):
    def render(self):
        raise OSError("no lamp")


class Fixed(Tank):
    """Draws only if that was asked for when it was made."""

    def __init__(self, inflow: float = 0.03, render_mode=None):
        self.mode = render_mode
        super().__init__(inflow)

    @property
    def render_mode(self):
        return self.mode

    @render_mode.setter
    def render_mode(self, mode):
        if mode is not None:
            raise AttributeError("give it when you make the tank")
