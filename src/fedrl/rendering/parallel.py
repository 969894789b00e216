"""An episode of any PettingZoo environment as its own renderer draws it, all clients acting in it together."""

import jax
import numpy as np

from fedrl import keys
from fedrl.environments.protocol import Host, ReplayState, StepArrays
from fedrl.federations.pettingzoo_envs import PettingZooSimulator
from fedrl.plots.clip import Episode
from fedrl.rendering.own_renderer import (
    NOTHING,
    CannotRender,
    ask_for_pictures,
    draw_shared,
    expect_no_screen,
)
from fedrl.rendering.pictures import Pictures
from fedrl.rendering.traffic import everyone
from fedrl.rollouts import host
from fedrl.rollouts.shared_host import shared_host_rollout
from fedrl.trained import Trained
from fedrl.types import stepwise


def act(it: Trained, environment: Host, client: int, seed: int, horizon: int) -> Episode:
    """One episode of at most `horizon` steps; the rewards are those of `client`."""
    theta, clients = everyone(it)
    env_params = jax.tree.map(lambda x: np.asarray(x[0]), clients.env_params)
    expect_no_screen()  # before the environment's process starts
    simulator = environment.open(0, env_params, 1)
    if not isinstance(simulator, PettingZooSimulator):
        simulator.close()
        raise CannotRender(NOTHING)
    rendered = RenderedParallel(simulator, horizon)
    shared = shared_host_rollout(
        environment._replace(open=lambda *_: rendered), stepwise(it.algorithm.policy), horizon=horizon, batch=1,
        continues=False,
    )  # fmt: skip
    key = keys.of(it.state.key[0], "play", seed)
    try:
        trajectory, _ = shared.sample(theta, clients, shared.init(env_params, key), key)
    finally:
        host.close_all()
    return rendered.episode(trajectory.reward[client, 0, : trajectory.alive[client, 0].sum()])


class RenderedParallel:
    """A shared simulator with one environment, whose pictures are kept."""

    def __init__(self, simulator: PettingZooSimulator, horizon: int) -> None:
        self.simulator, self.horizon, self.pictures = simulator, horizon, Pictures()
        simulator.call(0, ask_for_pictures)  # some prepare to draw when an episode starts

    def restore(self, state: ReplayState) -> np.ndarray:
        observations = self.simulator.restore(state)
        self._keep()
        return observations

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return self.simulator.reset(rows, seeds)

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        outcome = self.simulator.step(actions, rows)
        if self.pictures.wanted(bool(outcome[2][0] or outcome[3][0]) or self.pictures.time + 1 == self.horizon):
            self._keep()
        return outcome

    def replay_state(self) -> ReplayState:
        return self.simulator.replay_state()

    def close(self) -> None:
        self.simulator.close()

    def episode(self, rewards: np.ndarray) -> Episode:
        return self.pictures.episode(rewards, self.seconds)

    def _keep(self) -> None:
        picture, self.seconds = self.simulator.call(0, draw_shared)
        if isinstance(picture, str):
            raise CannotRender(picture)
        self.pictures.keep(picture)
