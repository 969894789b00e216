"""Processes in which roads are driven, shared by all clients of this process: as many as one client has copies.

libsumo holds one simulation per process, and a client needs its own only during a roll-out. So a copy does not own its
process: whoever begins an episode on a seat has it until somebody else does. What an episode has come to can be repeated on
any seat, from its seed and the actions taken.
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


def roads(settings: Settings) -> OsmRoads:
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


class Desk(ParallelEnv[str, np.ndarray, np.ndarray]):
    """What a seat's process holds: every network it has been asked for, and the simulation of the last. Nobody is an agent
    in the sense of PettingZoo; it is reached by `call`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self) -> None:
        self.possible_agents: list[str] = []
        self.agents: list[str] = []
        self._known: dict[Settings, OsmRoads] = {}
        self._now: OsmRoads | None = None

    def begin(self, settings: Settings, seed: int, actions: list[np.ndarray]) -> np.ndarray:
        """The observation of the episode with this seed, after these actions."""
        if settings not in self._known:
            self._known[settings] = roads(settings)
        if self._now is not None and self._now is not self._known[settings]:
            self._now.close()
        self._now = self._known[settings]
        seen, _ = self._now.reset(seed=seed)
        for action in actions:
            seen, *_ = self._now.step(action)
        return seen

    def advance(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        assert self._now is not None
        return self._now.step(action)[:4]

    def close(self) -> None:
        if self._now is not None:
            self._now.close()


class Seat:
    """A process, and whose episode is in it."""

    def __init__(self) -> None:
        self.apart = SubprocessEnv(Desk)
        self.holder: object | None = None

    def renew(self) -> None:
        """Another process for one that has died."""
        self.apart.close()
        self.apart, self.holder = SubprocessEnv(Desk), None


_seats: list[Seat] = []
_users: list[object] = []


def taken(user: object, count: int) -> list[Seat]:
    """`count` seats for somebody who will say when they need them no more; others have the same ones."""
    _users.append(user)
    while len(_seats) < count:
        _seats.append(Seat())
    return _seats[:count]


def given_back(user: object) -> None:
    """When the last has gone, so have the processes."""
    if user in _users:
        _users.remove(user)
    while _seats and not _users:
        _seats.pop().apart.close()
