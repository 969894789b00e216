"""A PettingZoo environment that draws itself in NumPy, and variants that do not. Its process imports this file alone."""

import numpy as np
from gymnasium.spaces import Discrete
from pettingzoo import ParallelEnv

STEPS = 6  # of an episode


class Climbers(ParallelEnv):
    """Two that climb by what they choose, and are drawn as bars; the second earns ten times as much."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    possible_agents = ["left", "right"]  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.agents, self.render_mode = [], render_mode

    def observation_space(self, agent):
        return Discrete(4)

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.time, self.height = list(self.possible_agents), 0, np.zeros(2, int)
        self.draws = self.render_mode == "rgb_array"  # from now on
        return dict.fromkeys(self.agents, 0), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        self.height += [1 + int(actions[agent]) for agent in self.agents]
        everyone, over = self.agents, self.time == STEPS
        self.agents = [] if over else everyone
        rewards = dict(zip(everyone, (1.0, 10.0), strict=True))
        flags = dict.fromkeys(everyone, over), dict.fromkeys(everyone, False)
        return dict.fromkeys(everyone, self.time % 4), rewards, *flags, {agent: {} for agent in everyone}

    def render(self):
        assert self.draws
        picture = np.full((40, 40, 3), 255, np.uint8)
        for i, height in enumerate(self.height):
            picture[40 - height :, 5 + 20 * i : 15 + 20 * i] = 0
        return picture


class Dark(Climbers):
    metadata = {"render_modes": ["human"]}  # noqa: RUF012


class Plain(Climbers):
    metadata = None


class Broken(Climbers):
    def render(self):
        raise OSError("no lamp")
