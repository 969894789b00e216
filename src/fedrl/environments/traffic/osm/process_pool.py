"""Processes that simulate roads, shared by all clients of this process: as many as one client has copies.

libsumo holds one simulation per process, and a client needs its own only during a roll-out. So a copy does not own a
process but uses one from the start of an episode until another client starts an episode in it. An episode can be replayed
in any process from its seed and the actions taken.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from pettingzoo import ParallelEnv

from fedrl.environments.subprocess_env import SubprocessEnv
from fedrl.environments.traffic.osm.network import Network
from fedrl.environments.traffic.osm.roads import OsmRoads


class Settings(NamedTuple):
    network: Network
    horizon: int
    dt: float
    driver: str = "agent"


def make_roads(settings: Settings) -> OsmRoads:
    network = settings.network
    return OsmRoads(
        network.path,
        target_speed=network.target_speed,
        max_accel=network.max_accel,
        max_decel=network.max_decel,
        lefthand=network.lefthand,
        horizon=settings.horizon,
        dt=settings.dt,
        driver=settings.driver,
    )


class RoadsServer(ParallelEnv[str, np.ndarray, np.ndarray]):  # type: ignore[misc]  # PettingZoo is untyped
    """The environment in a pooled process: every network requested so far, and the simulation of the last one.

    It has no agents in PettingZoo's sense; use `SubprocessEnv.call`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self) -> None:
        self.possible_agents: list[str] = []
        self.agents: list[str] = []
        self._known: dict[Settings, OsmRoads] = {}
        self._now: OsmRoads | None = None

    def begin(self, settings: Settings, seed: int, actions: list[np.ndarray]) -> np.ndarray:
        """Start the episode with this seed and take these actions; returns the last observation."""
        if settings not in self._known:
            self._known[settings] = make_roads(settings)
        if self._now is not None and self._now is not self._known[settings]:
            self._now.close()
        self._now = self._known[settings]
        observation, _ = self._now.reset(seed=seed)
        for action in actions:
            observation, *_ = self._now.step(action)
        return observation

    def advance(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        assert self._now is not None
        return self._now.step(action)[:4]

    def close(self) -> None:
        if self._now is not None:
            self._now.close()


class PooledProcess:
    """A process, and the simulator whose episode runs in it."""

    def __init__(self) -> None:
        self.env = SubprocessEnv(RoadsServer)
        self.user: object | None = None

    def restart(self) -> None:
        """Replace a process that has died."""
        self.env.close()
        self.env, self.user = SubprocessEnv(RoadsServer), None


_pool: list[PooledProcess] = []
_users: list[object] = []


def acquire(user: object, count: int) -> list[PooledProcess]:
    """`count` processes, shared with all other users; call `release` when they are no longer needed."""
    _users.append(user)
    while len(_pool) < count:
        _pool.append(PooledProcess())
    return _pool[:count]


def release(user: object) -> None:
    """The last user closes the processes."""
    if user in _users:
        _users.remove(user)
    while _pool and not _users:
        _pool.pop().env.close()
