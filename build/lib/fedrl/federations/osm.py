"""A federation whose clients each drive in the roads of an OpenStreetMap file of their own (paper 004's HongKongOSMs)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.environments import spaces
from fedrl.environments.checks import check_finite_rows
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host
from fedrl.environments.spaces import Description
from fedrl.environments.subprocess_env import EnvProcessDied, Late
from fedrl.environments.traffic.osm import seats
from fedrl.environments.traffic.osm.network import Network
from fedrl.environments.traffic.osm.seats import Settings
from fedrl.federations.federation import Federation

MOST_DEATHS = 3  # of one copy at one step
MOST_LATE = 2  # of them because it did not answer by the deadline


def federation(
    networks: Sequence[Network | str | Path], *, horizon: int = 512, dt: float = 0.5, gamma: float = 0.99
) -> Federation:
    """One client a network, all of equal weight; a bare path is a `Network` with its defaults. All are built now; on a
    cluster, the files have to be in the same place on every machine.

    Simulators run in processes of their own: in every process that works for clients as many as one client has copies.
    One that dies is replaced, and its episode repeated up to where it was: the result is the same.
    """
    if not networks or not 0.0 < gamma <= 1.0:
        raise ValueError(f"wanted at least one network and 0 < gamma <= 1, got {len(networks)} and {gamma}")
    given = [network if isinstance(network, Network) else Network(network) for network in networks]
    of_clients = [Settings(network._replace(path=str(Path(network.path).resolve())), horizon, dt) for network in given]
    for client_id, own in enumerate(of_clients):
        try:
            first = seats.roads(own)
        except (ValueError, OSError) as error:
            raise EnvironmentFailed(f"client {client_id}: {error}") from error
    observations, actions = spaces.describe(first.observation_space), spaces.describe(first.action_space)

    def opened(client_id: int, env_params: np.ndarray, num_envs: int) -> Copies:
        return Copies(client_id, of_clients[client_id], num_envs, observations, actions)

    host = Host(
        opened,
        spaces.observed(observations),
        spaces.acted(actions),
        gamma,
        horizon,
        native_observations=observations,
        native_actions=actions,
    )
    return Federation(host, np.arange(len(of_clients), dtype=np.int32))


class Copies:
    """The `Simulator` of one client. An episode is its seed and the actions taken in it."""

    def __init__(
        self, client_id: int, env_params: Settings, num_envs: int, observations: Description, actions: Description
    ) -> None:
        self.client_id, self._world = client_id, env_params
        self._observations, self._actions = observations, actions
        self._seats = seats.taken(self, num_envs)
        self._seeds = [0] * num_envs
        self._taken: list[list[np.ndarray]] = [[] for _ in range(num_envs)]

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        came = []
        for row, seed in zip(rows, seeds, strict=True):
            self._seeds[row], self._taken[row] = int(seed), []
            self._seats[row].holder = None
            came.append(self._played(row))
        return spaces.flatten(self._observations, np.stack(came))

    def step(
        self, actions: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rewards are float64."""
        came = []
        stepped = range(len(self._seats)) if rows is None else rows.tolist()
        for row, action in zip(stepped, spaces.unflatten(self._actions, actions), strict=True):
            came.append(self._played(row, action))
            self._taken[row].append(action)
        observations, rewards, terminated, truncated = (np.stack(x) for x in zip(*came, strict=True))
        check_finite_rows(self.client_id, rows, observations, rewards)
        return spaces.flatten(self._observations, observations), rewards, terminated, truncated

    def close(self) -> None:
        seats.given_back(self)

    def _played(self, row: int, action: np.ndarray | None = None) -> Any:
        """What a step brings, or without an action the observation where the episode stands; if its process dies or
        another client has had it, once more from the episode's beginning.
        """
        seat, taken = self._seats[row], self._taken[row]
        gone: list[EnvProcessDied] = []
        for _ in range(MOST_DEATHS):
            try:
                if seat.holder is not self:
                    seat.holder = None
                    begun = seat.apart.call("begin", self._world, self._seeds[row], taken)
                    seat.holder = self
                return begun if action is None else seat.apart.call("advance", action)
            except EnvProcessDied as error:
                gone.append(error)
                seat.renew()
                if sum(isinstance(one, Late) for one in gone) == MOST_LATE:
                    break
            except (ValueError, RuntimeError, OSError) as error:
                raise EnvironmentFailed(f"client {self.client_id}, copy {row}: {error}") from error
        raise EnvironmentFailed(
            f"client {self.client_id}: the process of copy {row} died {len(gone)} times in a row after {len(taken)} steps "
            f"of the episode with seed {self._seeds[row]} ({gone[-1]}); look into that episode on its own"
        )
