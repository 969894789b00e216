"""PettingZoo environments each of which belongs to one client: all its agents act by that client's policy.

A row of a roll-out is one agent of one copy, so the number of rows is a multiple of the number of agents. Clients that share
an environment, one agent each, are `pettingzoo_envs`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import OpenSimulator, SharedSimulator, StepArrays
from fedrl.environments.spaces import Description
from fedrl.environments.subprocess_env import DEADLINE
from fedrl.federations.gymnasium_envs import SEEDS, describe_spaces
from fedrl.federations.pettingzoo_envs import MakeParallelEnv, PettingZooSimulator, first_env

CheckAgent = Callable[[int, str, list[Description]], None]  # (client, agent, its spaces): raises where they differ
Known = tuple[list[str], Description, Description]  # a client's agents; the spaces of each


def opener(
    make_env: Callable[[int], MakeParallelEnv],
    check: CheckAgent,
    *,
    max_episode_steps: int,
    rescale: bool = False,
    deadline: float = DEADLINE,
) -> OpenSimulator:
    """Opens client i's environments, each made by `make_env(i)()` in a process of its own.

    `num_envs` counts agents. With num_envs=0 it is one copy, whatever number of agents that has.
    """
    known: dict[int, Known] = {}  # of the clients opened so far

    def look(client_id: int) -> Known:
        env = first_env(make_env(client_id))
        try:
            pairs = {agent: (env.observation_space(agent), env.action_space(agent)) for agent in env.possible_agents}
        finally:
            env.close()
        described = {agent: describe_spaces(*pair, client_id, rescale) for agent, pair in pairs.items()}
        first = next(iter(described))
        for agent, own in described.items():
            check(client_id, agent, own)
            if own != described[first]:  # in their bounds, which `rescale` evens out between clients only
                raise EnvironmentFailed(
                    f"client {client_id}: {agent} has the spaces {pairs[agent]}, expected those of {first}, {pairs[first]}; "
                    "give every agent the same spaces"
                )
        observations, actions = described[first]
        return list(pairs), observations, actions

    def open_copies(client_id: int, env_params: Any, num_envs: int) -> AgentsAsRows:
        if client_id not in known:
            known[client_id] = look(client_id)
        agents, observations, actions = known[client_id]
        rows = num_envs or len(agents)
        if rows % len(agents):
            raise EnvironmentFailed(
                f"client {client_id}: its environment has {len(agents)} agents, and {rows} were asked to act; agree on "
                f"multiples of {len(agents)}: the learner's num_envs or batch, and episodes"
            )
        make, copies = make_env(client_id), rows // len(agents)
        simulator = PettingZooSimulator(make, agents, copies, max_episode_steps, observations, actions, deadline)
        return AgentsAsRows(simulator, len(agents), observations, actions)

    return open_copies


class AgentsAsRows:
    """A `Simulator` whose rows are the agents of the first copy, then those of the second, and so on."""

    def __init__(self, copies: SharedSimulator, agents: int, observations: Description, actions: Description) -> None:
        self.copies, self.agents = copies, agents
        self.observations, self.actions = observations, actions

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """A copy gets the last 31 bits of its first agent's seed."""
        observations = self.copies.reset(self._copies_of(rows), seeds[:: self.agents] % SEEDS)
        return self._as_rows(observations)

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        """An episode ends for all agents of a copy at once."""
        by_copy = actions.reshape(-1, self.agents, *actions.shape[1:])
        which = None if rows is None else self._copies_of(rows)
        observations, rewards, terminated, truncated = self.copies.step(by_copy, which)
        terminated, truncated = (np.repeat(flags, self.agents) for flags in (terminated, truncated))
        return self._as_rows(observations), self._as_rows(rewards), terminated, truncated

    def close(self) -> None:
        self.copies.close()

    def _copies_of(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows[:: self.agents]) // self.agents

    def _as_rows(self, by_copy: np.ndarray) -> np.ndarray:
        return by_copy.reshape(-1, *by_copy.shape[2:])
