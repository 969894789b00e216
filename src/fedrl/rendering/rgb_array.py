"""An episode of a Gymnasium environment as its own renderer draws it."""

from typing import Any

import gymnasium as gym
import numpy as np

from fedrl.environments.protocol import StepArrays
from fedrl.federations.gymnasium_envs import SEEDS, GymnasiumSimulator
from fedrl.plots.clip import Episode
from fedrl.rendering.own_renderer import (
    MODE,
    CannotRender,
    advice,
    ask_for_pictures,
    expect_no_screen,
    picture_of,
    seconds_of,
)
from fedrl.rendering.pictures import Pictures

Env = gym.Env[Any, Any]


class RenderedSimulator:
    """A client's simulator with one environment, whose pictures are kept."""

    def __init__(self, simulator: GymnasiumSimulator, horizon: int) -> None:
        expect_no_screen()
        self.simulator, self.horizon = simulator, horizon
        self.env: Env = simulator.envs[0]
        self.twin: Env | None = None  # an environment of the same kind that is stepped along, if the own cannot draw
        self.pictures = Pictures()

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        observations = self.simulator.reset(rows, seeds)
        self.pictures = Pictures()
        ask_for_pictures(self.env)
        if picture_of(self.env) is None:
            self.twin = self._made_anew()
            self._compare(self.twin.reset(seed=int(seeds[0] % SEEDS))[0], observations)
        self._keep()
        return observations

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        outcome = self.simulator.step(actions, rows)
        if self.twin is not None:
            (action,) = self.simulator.native_actions(actions)
            self._compare(self.twin.step(action)[0], outcome[0])
        if self.pictures.wanted(bool(outcome[2][0] or outcome[3][0]) or self.pictures.time + 1 == self.horizon):
            self._keep()
        return outcome

    def close(self) -> None:
        self.simulator.close()
        if self.twin is not None:
            self.twin.close()

    def episode(self, rewards: np.ndarray) -> Episode:
        return self.pictures.episode(rewards, seconds_of(self.env))

    def _keep(self) -> None:
        picture = picture_of(self.twin or self.env)
        if picture is None:
            raise CannotRender(self._advice())
        self.pictures.keep(picture)

    def _made_anew(self) -> Env:
        """The environment made from its spec, so as to draw."""
        if self.env.spec is None or MODE not in (self.env.metadata.get("render_modes") or []):
            raise CannotRender(self._advice())
        try:
            return gym.make(self.env.spec, render_mode=MODE)
        except Exception as error:
            raise CannotRender(f"{self._advice()} (making it so raised {type(error).__name__}: {error})") from error

    def _compare(self, observation: Any, expected: np.ndarray) -> None:
        """The twin must go through the client's own episode, or its pictures would be of another environment."""
        if not np.array_equal(self.simulator.flat([observation]), expected, equal_nan=True):
            raise CannotRender(self._advice())

    def _advice(self) -> str:
        return advice(f"client {self.simulator.client_id}'s", self.env)
