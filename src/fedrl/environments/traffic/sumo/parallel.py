"""The common base of Figure Eight and Merge: the PettingZoo interface, seeds, the reward and the end of an epoch."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium.spaces import Box
from pettingzoo import ParallelEnv

from fedrl.environments.traffic.sumo.network import Network
from fedrl.environments.traffic.sumo.simulation import Simulation
from fedrl.environments.traffic.sumo.vehicles import Vehicle, on_road


class Outcome(NamedTuple):
    """The result of a step. After a crash, observations and mean speed are those from before it."""

    observations: np.ndarray  # [agents, 6] float32
    reward: float  # NAS: the mean speed of all vehicles over v_ref, clipped to [0, 1]; 0 if there was a crash
    mean_speed: float  # m/s
    crash: bool  # vehicles have collided: the epoch is over
    truncated: bool  # out of time: the epoch stops here


class Traffic(ParallelEnv[str, np.ndarray, np.ndarray], ABC):  # type: ignore[misc]  # PettingZoo is untyped
    """Agents that drive vehicles among others. An action is an acceleration in [-1, 1], clipped if it lies outside.

    `begin` and `advance` are `reset` and `step` on arrays, in the order of `possible_agents`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "is_parallelizable": True}

    def __init__(
        self,
        agents: list[str],
        observations: Box,
        network: Network,
        simulation: Simulation,
        *,
        v_ref: float,
        horizon: int,
    ) -> None:
        if not v_ref > 0.0 or horizon < 1:
            raise ValueError(f"expected v_ref > 0 and horizon >= 1, got {v_ref} and {horizon}")
        self.possible_agents = agents
        self.agents: list[str] = []
        self.v_ref, self.horizon, self.time = v_ref, horizon, 0
        self.lanes = network.shapes  # for drawing: the middle line [points, 2] of every lane, in m
        self._simulation, self.dt = simulation, simulation.dt
        low, high = observations.low, observations.high
        self.observation_spaces = {agent: Box(low, high, dtype=np.float32) for agent in agents}
        self.action_spaces = {agent: Box(-1.0, 1.0, (1,), np.float32) for agent in agents}
        self._seeds: np.random.Generator | None = None

    @abstractmethod
    def _begin(self, seed: int, random: np.random.Generator) -> None:
        """Start an epoch: `seed` is SUMO's, `random` is for everything else."""

    @abstractmethod
    def _move(self, actions: list[float]) -> bool:
        """One step under these actions; True if vehicles have collided."""

    @abstractmethod
    def _driven_by_agents(self) -> list[str]: ...

    @abstractmethod
    def _observed(self) -> np.ndarray: ...

    @abstractmethod
    def _mean_speed(self) -> float: ...

    def begin(self, seed: int) -> np.ndarray:
        """Start an epoch, fully determined by `seed`; returns the observations [agents, 6]."""
        if seed < 0:
            raise ValueError(f"seeds must be whole numbers from 0, got {seed}")
        sumo, rest = np.random.SeedSequence(seed).spawn(2)
        self.agents, self.time = [], 0
        self._begin(int(sumo.generate_state(1)[0] >> 1), np.random.default_rng(rest))
        self.agents = list(self.possible_agents)
        self._seen = self._observed()
        return self._seen.copy()

    def advance(self, actions: np.ndarray) -> Outcome:
        """One step: `actions` [agents]."""
        if not self.agents:
            raise RuntimeError("the epoch is over or has not begun: call reset()")
        if actions.shape != (len(self.agents),):
            raise ValueError(
                f"actions of shape {actions.shape}, expected one number for each of {len(self.agents)} agents"
            )
        if not np.isfinite(actions).all():
            agent = int(np.argmin(np.isfinite(actions)))
            raise ValueError(
                f"{self.agents[agent]}: action {actions[agent]}, expected a number in [-1, 1]; "
                "has the policy that drew it diverged?"
            )
        crash = self._move(np.clip(actions, -1.0, 1.0).tolist())
        self.time += 1
        truncated = self.time >= self.horizon and not crash
        if not crash:
            self._seen = self._observed()
        if crash or truncated:
            self.agents = []
        speed = self._mean_speed()
        return Outcome(self._seen.copy(), 0.0 if crash else min(speed / self.v_ref, 1.0), speed, crash, truncated)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start an epoch. Without a seed, it is the next in the sequence of the last seed; `options` are ignored."""
        if seed is not None or self._seeds is None:
            self._seeds = np.random.default_rng(seed)
        epoch = int(self._seeds.integers(2**63)) if seed is None else seed
        observations = self.begin(epoch)
        speed = self._mean_speed()
        infos = {agent: self._info(slot, speed, False) for slot, agent in enumerate(self.agents)}
        return dict(zip(self.agents, observations, strict=True)), infos

    def step(
        self, actions: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        agents = self.agents
        observations, reward, speed, crash, truncated = self.advance(self._in_order(actions))
        return (
            dict(zip(agents, observations, strict=True)),
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, crash),
            dict.fromkeys(agents, truncated),
            {agent: self._info(slot, speed, crash) for slot, agent in enumerate(agents)},
        )

    def vehicles(self) -> list[Vehicle]:
        """Every vehicle on the road, for drawing."""
        self._simulation.check()
        return on_road(self._driven_by_agents())

    def observation_space(self, agent: str) -> Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Box:
        return self.action_spaces[agent]

    def close(self) -> None:
        self.agents = []
        self._simulation.close()

    def _info(self, slot: int, mean_speed: float, crash: bool) -> dict[str, Any]:
        return {"mean_speed": mean_speed, "crash": crash}

    def _in_order(self, actions: dict[str, np.ndarray]) -> np.ndarray:
        if self.agents and actions.keys() != set(self.agents):
            raise ValueError(f"got actions for {sorted(actions)}, expected one for each of {self.agents}")
        numbers = np.empty(len(self.agents))
        for slot, agent in enumerate(self.agents):
            action = np.asarray(actions[agent])
            if action.shape != (1,) or action.dtype.kind not in "fiu":
                raise ValueError(
                    f"{agent}: action {action!r} of shape {action.shape}, expected shape (1,): an acceleration in [-1, 1]"
                )
            numbers[slot] = action[0]
        return numbers
