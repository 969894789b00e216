"""Any PettingZoo parallel environment as a federation whose clients meet in it: `fedrl.pettingzoo(make_env)`.

Every copy runs in a process of its own. One that dies is started again and its epoch repeated up to where it was: an epoch
is its seed and the actions taken in it, so the result is the same.
"""

from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

from fedrl.environments.apart import Apart, Gone
from fedrl.environments.errors import WorldError, check_finite
from fedrl.environments.gym import native, plain, space_of
from fedrl.environments.protocol import Host
from fedrl.federation import Federation
from fedrl.rollouts.host_meetings import Epoch

MakeParallel = Callable[[], Any]  # -> pettingzoo.ParallelEnv
MOST_DEATHS = 3  # of one copy at one step


class Carried:
    """A function that spawned processes can be given even if they cannot import it."""

    def __init__(self, function: Callable) -> None:
        self.code = cloudpickle.dumps(function)

    def __call__(self) -> Any:
        return cloudpickle.loads(self.code)()


def pettingzoo(make_env: MakeParallel, *, limit: int, gamma: float = 0.99) -> Federation:
    """One client an agent; all of them act in the environment that `make_env()` makes, epochs of at most `limit` steps.

    All agents want the same spaces, are there from the beginning of an epoch to its end, and end together.
    """
    if limit < 1 or not 0.0 < gamma <= 1.0:
        raise ValueError(f"wanted limit >= 1 and 0 < gamma <= 1, got {limit} and {gamma}")
    first = Apart(Carried(make_env))
    agents = list(first.possible_agents)
    spaces = [(first.observation_space(agent), first.action_space(agent)) for agent in agents]
    first.close()
    for agent, pair in zip(agents, spaces, strict=True):
        if pair != spaces[0]:
            raise WorldError(
                f"{agent}: spaces {pair}, wanted those of {agents[0]}, {spaces[0]}; one policy serves all agents"
            )
    seen, done = (space_of(space, what) for space, what in zip(spaces[0], ("observations", "actions"), strict=True))

    def opened(client_id: int, world: np.ndarray, copies: int) -> Copies:
        return Copies(make_env, agents, copies, limit)

    return Federation(Host(opened, seen, done, gamma, limit, agents=len(agents)), np.zeros(len(agents), np.int32))


class Copies:
    """Epochs under way in several processes. Arrays have the axes [copies, agents, ...]."""

    def __init__(self, make_env: MakeParallel, agents: list[str], copies: int, limit: int) -> None:
        self._make, self._agents, self._limit = Carried(make_env), agents, limit
        self._envs = [Apart(self._make) for _ in range(copies)]
        self._seeds = [-1] * copies
        self._taken: list[list[np.ndarray]] = [[] for _ in range(copies)]
        self._seen: list[np.ndarray] = [np.zeros(0)] * copies
        self._action = np.zeros(0)  # what one step's actions look like

    def at(self, epoch: Epoch) -> np.ndarray:
        """Observations where the epochs stand; what is elsewhere, because it is new or was with others, goes there first."""
        for copy, (seed, steps, actions) in enumerate(zip(epoch.seed, epoch.steps, epoch.actions, strict=True)):
            there = self._seeds[copy] == int(seed) and len(self._taken[copy]) == int(steps)
            if not (there and all(map(np.array_equal, self._taken[copy], actions))):
                self._seeds[copy], self._taken[copy] = int(seed), list(actions[: int(steps)])
                self._surviving(copy)
        return np.stack(self._seen)

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        for copy, seed in zip(rows, seeds, strict=True):
            self._seeds[copy], self._taken[copy] = int(seed), []
            self._surviving(copy)
        return np.stack([self._seen[copy] for copy in rows])

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rewards [copies, agents]; done and cut [copies]."""
        came = [self._step(copy, actions[copy]) for copy in range(len(self._envs))]
        seen, reward, done, cut = (np.stack(x) for x in zip(*came, strict=True))
        check_finite(0, seen, reward)
        return seen, reward, done, cut

    def where(self) -> Epoch:
        """How far the epochs have come, as arrays."""
        actions = np.zeros((len(self._envs), self._limit, *self._action.shape), self._action.dtype)
        for copy, taken in enumerate(self._taken):
            if taken:
                actions[copy, : len(taken)] = taken
        return Epoch(np.array(self._seeds, np.uint32), np.array([len(x) for x in self._taken], np.int32), actions)

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _step(self, copy: int, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool, bool]:
        came = self._surviving(copy, lambda: self._one(copy, actions))
        self._action = actions
        self._taken[copy].append(np.array(actions))
        return came

    def _surviving(self, copy: int, work: Callable[[], Any] | None = None) -> Any:
        """What `work()` gives, or None after catching up; should the process die, once more in a new one."""
        for deaths in range(MOST_DEATHS):
            try:
                if deaths:
                    self._envs[copy] = Apart(self._make)
                if deaths or work is None:
                    self._repeat(copy)
                return work() if work else None
            except Gone as error:
                gone = error
        steps = len(self._taken[copy])
        raise WorldError(
            f"the process of copy {copy} died {MOST_DEATHS} times in a row after {steps} steps of the epoch with seed "
            f"{self._seeds[copy]} ({gone}); look into that epoch on its own"
        )

    def _one(self, copy: int, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool, bool]:
        env = self._envs[copy]
        given = dict(zip(self._agents, native(env.action_space(self._agents[0]), actions), strict=True))
        seen, reward, done, cut, _ = env.step(given)
        self._seen[copy] = self._plain(seen)
        rewards = np.array([reward[agent] for agent in self._agents], np.float32)
        over = any(done.values())
        return self._seen[copy], rewards, over, any(cut.values()) or len(self._taken[copy]) + 1 >= self._limit

    def _repeat(self, copy: int) -> None:
        """Go where the epoch of this copy stands, from its beginning."""
        seen, _ = self._envs[copy].reset(seed=self._seeds[copy])
        self._seen[copy] = self._plain(seen)
        for actions in self._taken[copy]:
            self._one(copy, actions)

    def _plain(self, seen: dict[str, Any]) -> np.ndarray:
        if missing := [agent for agent in self._agents if agent not in seen]:
            raise WorldError(
                f"{missing[0]} has left the epoch before its end; all agents must stay to the end, "
                "so give those who are gone an observation that says so"
            )
        space = self._envs[0].observation_space(self._agents[0])
        return plain(space, np.stack([np.asarray(seen[agent]) for agent in self._agents]))
