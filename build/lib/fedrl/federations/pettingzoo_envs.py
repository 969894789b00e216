"""Any PettingZoo parallel environment as a federation whose clients meet in it: `fedrl.pettingzoo(make_env)`.

Every copy runs in a process of its own, and all of them step at the same time. One that dies is started again and its epoch
repeated up to where it was: an epoch is its seed and the actions taken in it, so the result is the same.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrl.arguments import checked
from fedrl.environments import checks, spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host
from fedrl.environments.spaces import Description
from fedrl.environments.subprocess_env import DEADLINE, EnvProcessDied, Late, SubprocessEnv
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import described
from fedrl.rollouts.shared_host import ReplayState

MakeParallel = Callable[[], Any]  # -> pettingzoo.ParallelEnv
MOST_DEATHS = 3  # of one copy at one step
MOST_LATE = 2  # of them because it did not answer by the deadline


@checked
def pettingzoo(
    make_env: MakeParallel, *, max_episode_steps: int, gamma: float = 0.99, deadline: float = DEADLINE
) -> Federation:
    """One client an agent; all of them act in the environment that `make_env()` makes, epochs of at most `max_episode_steps` steps.

    All agents want the same spaces, are there from the beginning of an epoch to its end, and end together. A step that
    takes more than `deadline` seconds is given up: its process is killed and the epoch repeated in a new one, once.
    """
    if max_episode_steps < 1 or not 0.0 < gamma <= 1.0 or not deadline > 0:
        raise ValueError(
            f"wanted limit >= 1, 0 < gamma <= 1 and deadline > 0, got {max_episode_steps}, {gamma} and {deadline}"
        )
    first = _first(make_env)
    agents = list(first.possible_agents)
    pairs = [(first.observation_space(agent), first.action_space(agent)) for agent in agents]
    first.close()
    for agent, pair in zip(agents, pairs, strict=True):
        if pair != pairs[0]:
            raise EnvironmentFailed(
                f"{agent}: spaces {pair}, wanted those of {agents[0]}, {pairs[0]}; one policy serves all agents"
            )
    observations, actions = described(*pairs[0], client_id=0)

    def opened(client_id: int, env_params: np.ndarray, num_envs: int) -> Copies:
        return Copies(make_env, agents, num_envs, max_episode_steps, observations, actions, deadline)

    host = Host(
        opened,
        spaces.observed(observations),
        spaces.acted(actions),
        gamma,
        max_episode_steps,
        agents=len(agents),
        native_observations=observations,
        native_actions=actions,
    )
    return Federation(host, np.zeros(len(agents), np.int32))


def _first(make_env: MakeParallel) -> SubprocessEnv:
    """One to ask for agents and spaces."""
    try:
        return SubprocessEnv(make_env)
    except EnvProcessDied:
        raise
    except Exception as error:
        raise ValueError(
            f"make_env() must make a PettingZoo parallel environment, but asking one for its agents and spaces "
            f"ended with {type(error).__name__}: {error}; call make_env() on its own and mend that"
        ) from error


class Copies:
    """Epochs under way in several processes. Arrays have the axes [copies, agents, ...]."""

    def __init__(
        self,
        make_env: MakeParallel,
        agents: list[str],
        num_envs: int,
        max_episode_steps: int,
        observations: Description,
        actions: Description,
        deadline: float = DEADLINE,
    ) -> None:
        self._make, self._agents, self._limit, self._deadline = make_env, agents, max_episode_steps, deadline
        self._observations, self._actions = observations, actions
        self._fault, self._warned = checks.observation_fault(observations), checks.Once()
        self._envs = [SubprocessEnv(make_env, deadline) for _ in range(num_envs)]
        self._seeds = [-1] * num_envs
        self._taken: list[list[np.ndarray]] = [[] for _ in range(num_envs)]
        self._seen: list[np.ndarray] = [np.zeros(0)] * num_envs
        self._action = np.zeros(0)  # what one step's actions look like
        self.infos: list[dict[str, dict[str, Any]]] = [
            {} for _ in range(num_envs)
        ]  # what else is said of the agents now

    def at(self, epoch: ReplayState) -> np.ndarray:
        """Observations where the epochs stand; what is elsewhere, because it is new or was with others, goes there first."""
        away = [copy for copy in range(len(self._envs)) if not self._is_at(copy, epoch)]
        self._begin(away, epoch.seed[away])
        for t in range(max(epoch.steps[away], default=0)):
            going = [copy for copy in away if t < epoch.steps[copy]]
            self._advance(going, epoch.actions[going, t])
        return np.stack(self._seen)

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self._begin(rows, seeds)
        return np.stack([self._seen[copy] for copy in rows])

    def step(
        self, actions: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rewards [copies, agents]; done and cut [copies]."""
        stepped = list(range(len(self._envs))) if rows is None else rows.tolist()
        came = self._advance(stepped, actions)
        reward, terminated, truncated = (np.stack(x) for x in zip(*came, strict=True))
        seen = np.stack([self._seen[copy] for copy in stepped])
        if not (np.isfinite(seen).all() and np.isfinite(reward).all()):
            for client_id in range(len(self._agents)):
                checks.check_finite_rows(client_id, rows, seen[:, client_id], reward[:, client_id])
        checks.warn_of_size(int(np.abs(reward).max(axis=0).argmax()), reward, self._warned)
        return seen, reward, terminated, truncated

    def where(self) -> ReplayState:
        """How far the epochs have come, as arrays; whose they are, others know."""
        actions = np.zeros((len(self._envs), self._limit, *self._action.shape), self._action.dtype)
        for copy, taken in enumerate(self._taken):
            if taken:
                actions[copy, : len(taken)] = taken
        return ReplayState(np.array(self._seeds, np.uint32), np.array([len(x) for x in self._taken], np.int32), actions)

    def call(self, copy: int, name: str, *arguments: Any) -> Any:
        """Any method or attribute of one environment, as of `SubprocessEnv`."""
        return self._envs[copy].call(name, *arguments)

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _is_at(self, copy: int, epoch: ReplayState) -> bool:
        there = self._seeds[copy] == int(epoch.seed[copy]) and len(self._taken[copy]) == int(epoch.steps[copy])
        return there and all(map(np.array_equal, self._taken[copy], epoch.actions[copy]))

    def _begin(self, rows: Sequence[int] | np.ndarray, seeds: np.ndarray) -> None:
        for copy, seed in zip(rows, seeds, strict=True):
            self._seeds[copy], self._taken[copy] = int(seed), []
        self._together(rows, [None] * len(rows))

    def _advance(self, rows: Sequence[int], actions: np.ndarray) -> list[tuple[np.ndarray, bool, bool]]:
        """What a step brings to each of the copies `rows`, to which `actions` [rows, ...] are given: rewards, done, cut."""
        came = self._together(rows, list(actions))
        for copy, taken in zip(rows, actions, strict=True):
            self._action = taken
            self._taken[copy].append(np.array(taken))
        return came

    def _together(self, rows: Sequence[int] | np.ndarray, given: list[Any]) -> list[Any]:
        """Tell all, then hear all. None is given for a new epoch. If one says what it should not, none is trusted."""
        try:
            for copy, actions in zip(rows, given, strict=True):
                self._tell(copy, actions)
            return [self._surviving(copy, actions) for copy, actions in zip(rows, given, strict=True)]
        except BaseException:
            self.close()
            raise

    def _surviving(self, copy: int, actions: np.ndarray | None) -> Any:
        """What it says to the `actions` it has been told; should the process die, once more in a new one."""
        late = 0
        for deaths in range(1, MOST_DEATHS + 1):
            try:
                if deaths > 1:
                    self._envs[copy] = SubprocessEnv(self._make, self._deadline)
                    self._repeat(copy, actions)
                return self._hear(copy)
            except EnvProcessDied as error:
                gone = error
                late += isinstance(error, Late)
                if late == MOST_LATE:
                    break
            except EnvironmentFailed:
                raise
            except Exception as error:
                doing = "reset" if actions is None else "step"
                raise EnvironmentFailed(
                    f"copy {copy} of the environment: {doing} raised {type(error).__name__}: {error}; fix the environment"
                ) from error
        steps = len(self._taken[copy])
        raise EnvironmentFailed(
            f"the process of copy {copy} died {deaths} times in a row after {steps} steps of the epoch with seed "
            f"{self._seeds[copy]} ({gone}); look into that epoch on its own"
        )

    def _repeat(self, copy: int, actions: np.ndarray | None) -> None:
        """Its epoch from the beginning, to where it has been told these actions."""
        self._tell(copy, None)
        for told in self._taken[copy] if actions is None else [*self._taken[copy], actions]:
            self._hear(copy)
            self._tell(copy, told)

    def _tell(self, copy: int, actions: np.ndarray | None) -> None:
        env = self._envs[copy]
        if actions is None:
            env.ask("reset", self._seeds[copy], None)
        else:
            given = spaces.unflatten(self._actions, actions)
            env.ask("step", dict(zip(self._agents, given, strict=True)))

    def _hear(self, copy: int) -> tuple[np.ndarray, bool, bool] | None:
        seen, *came, self.infos[copy] = self._envs[copy].answer()
        self._seen[copy] = self._flat(copy, "step" if came else "reset", seen)
        if not came:
            return None
        told = [dict.fromkeys(self._agents) | said for said in came]  # None of whom nothing is said
        rewards = [checks.reward_number(i, copy, told[0][agent]) for i, agent in enumerate(self._agents)]
        terminated, truncated = (
            any(checks.flag(i, copy, name, told[j][agent]) for i, agent in enumerate(self._agents))
            for j, name in ((1, "terminated"), (2, "truncated"))
        )
        return np.array(rewards, np.float32), terminated, truncated or len(self._taken[copy]) + 1 >= self._limit

    def _flat(self, copy: int, call: str, seen: dict[str, Any]) -> np.ndarray:
        if missing := [agent for agent in self._agents if agent not in seen]:
            raise EnvironmentFailed(
                f"{missing[0]} has left the epoch before its end; all agents must stay to the end, "
                "so give those who are gone an observation that says so"
            )
        came = [seen[agent] for agent in self._agents]
        if self._fault(came):
            for client_id, observation in enumerate(came):
                checks.check_observations(self._fault, client_id, [copy], call, [observation])
        return spaces.flatten(self._observations, came)
