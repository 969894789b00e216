"""A federation whose clients each drive on the roads of an OpenStreetMap file of their own (`xie2025`, HongKongOSMs)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.environments import spaces
from fedrl.environments.checks import check_finite_rows
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host, StepArrays
from fedrl.environments.spaces import Description
from fedrl.environments.subprocess_env import EnvProcessDied, EnvProcessTimeout
from fedrl.environments.traffic.osm import process_pool
from fedrl.environments.traffic.osm.network import Network
from fedrl.environments.traffic.osm.process_pool import Settings
from fedrl.federations.federation import Federation

MAX_DEATHS = 3  # of one copy at one step
MAX_TIMEOUTS = 2  # of these deaths


def federation(
    networks: Sequence[Network | str | Path], *, horizon: int = 512, dt: float = 0.5, gamma: float = 0.99
) -> Federation:
    """One client per network, all of equal weight; a bare path is a `Network` with its defaults. All networks are built
    now; on a cluster, the files must have the same paths on every machine.

    Simulators run in processes of their own: every process that works for clients starts as many as one client has copies.
    If one dies it is replaced and its episode replayed, so the result is the same.
    """
    if not networks or not 0.0 < gamma <= 1.0:
        raise ValueError(f"expected at least one network and 0 < gamma <= 1, got {len(networks)} and {gamma}")
    described = [network if isinstance(network, Network) else Network(network) for network in networks]
    of_clients = [
        Settings(network._replace(path=str(Path(network.path).resolve())), horizon, dt) for network in described
    ]
    for client_id, own in enumerate(of_clients):
        try:
            first = process_pool.make_roads(own)
        except (ValueError, OSError) as error:
            raise EnvironmentFailed(f"client {client_id}: {error}") from error
    observations, actions = spaces.describe(first.observation_space), spaces.describe(first.action_space)

    def open_copies(client_id: int, env_params: np.ndarray, num_envs: int) -> OsmSimulator:
        return OsmSimulator(client_id, of_clients[client_id], num_envs, observations, actions)

    host = Host(
        open_copies,
        spaces.policy_observations(observations),
        spaces.policy_actions(actions),
        gamma,
        horizon,
        native_observations=observations,
        native_actions=actions,
    )
    return Federation(host, np.arange(len(of_clients), dtype=np.int32))


class OsmSimulator:
    """The `Simulator` of one client. An episode is determined by its seed and the actions taken in it."""

    def __init__(
        self, client_id: int, settings: Settings, num_envs: int, observations: Description, actions: Description
    ) -> None:
        self.client_id, self._settings = client_id, settings
        self._observations, self._actions = observations, actions
        self._processes = process_pool.acquire(self, num_envs)
        self._seeds = [0] * num_envs
        self._taken: list[list[np.ndarray]] = [[] for _ in range(num_envs)]

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        observations = []
        for row, seed in zip(rows, seeds, strict=True):
            self._seeds[row], self._taken[row] = int(seed), []
            self._processes[row].user = None
            observations.append(self._begin_or_advance(row))
        return spaces.flatten(self._observations, np.stack(observations))

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        """Rewards are float64."""
        results = []
        copies = range(len(self._processes)) if rows is None else rows.tolist()
        for row, action in zip(copies, spaces.unflatten(self._actions, actions), strict=True):
            results.append(self._begin_or_advance(row, action))
            self._taken[row].append(action)
        observations, rewards, terminated, truncated = (np.stack(x) for x in zip(*results, strict=True))
        check_finite_rows(self.client_id, rows, observations, rewards)
        return spaces.flatten(self._observations, observations), rewards, terminated, truncated

    def close(self) -> None:
        process_pool.release(self)

    def _begin_or_advance(self, row: int, action: np.ndarray | None = None) -> Any:
        """The result of a step, or without an action the current observation of the episode.

        If its process has died or another client has used it, the episode is replayed first.
        """
        process, actions = self._processes[row], self._taken[row]
        deaths: list[EnvProcessDied] = []
        for _ in range(MAX_DEATHS):
            try:
                if process.user is not self:
                    process.user = None
                    observation = process.env.call("begin", self._settings, self._seeds[row], actions)
                    process.user = self
                return observation if action is None else process.env.call("advance", action)
            except EnvProcessDied as error:
                deaths.append(error)
                process.restart()
                if sum(isinstance(one, EnvProcessTimeout) for one in deaths) == MAX_TIMEOUTS:
                    break
            except (ValueError, RuntimeError, OSError) as error:
                raise EnvironmentFailed(f"client {self.client_id}, copy {row}: {error}") from error
        raise EnvironmentFailed(
            f"client {self.client_id}: the process of copy {row} died {len(deaths)} times in a row after {len(actions)} "
            f"steps of the episode with seed {self._seeds[row]} ({deaths[-1]}); run that episode on its own to find out why"
        )
