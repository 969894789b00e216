"""Any PettingZoo parallel environment as a federation whose clients share it: `fedrl.pettingzoo(make_env)`.

Every copy runs in a process of its own, and all of them step at the same time. If one dies it is started again and its
episode replayed: an episode is determined by its seed and the actions taken in it, so the result is the same.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrl.arguments import checked
from fedrl.environments import checks, spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host, ReplayState, StepArrays
from fedrl.environments.spaces import Description
from fedrl.environments.subprocess_env import DEADLINE, EnvProcessDied, EnvProcessTimeout, SubprocessEnv
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import describe_spaces

MakeParallelEnv = Callable[[], Any]  # -> pettingzoo.ParallelEnv
Agents = dict[str, Any]  # agent -> value
Outcome = tuple[np.ndarray, bool, bool]  # rewards [agents], terminated, truncated
MAX_DEATHS = 3  # of one copy at one step
MAX_TIMEOUTS = 2  # of these deaths


@checked
def pettingzoo(
    make_env: MakeParallelEnv, *, max_episode_steps: int, gamma: float = 0.99, deadline: float = DEADLINE
) -> Federation:
    """One client per agent of the environment that `make_env()` returns, in episodes of at most `max_episode_steps` steps.

    All agents must have the same spaces and be present from the start of an episode to its end. If a step takes more than
    `deadline` seconds, its process is killed and the episode replayed in a new one, once.
    """
    if max_episode_steps < 1 or not 0.0 < gamma <= 1.0 or not deadline > 0:
        raise ValueError(
            "expected max_episode_steps >= 1, 0 < gamma <= 1 and deadline > 0, "
            f"got {max_episode_steps}, {gamma} and {deadline}"
        )
    first = first_env(make_env)
    agents = list(first.possible_agents)
    pairs = [(first.observation_space(agent), first.action_space(agent)) for agent in agents]
    first.close()
    for agent, pair in zip(agents, pairs, strict=True):
        if pair != pairs[0]:
            raise EnvironmentFailed(
                f"{agent} has the spaces {pair}, expected those of {agents[0]}, {pairs[0]}, as one policy serves all "
                "agents; give every agent the same spaces"
            )
    observations, actions = describe_spaces(*pairs[0], client_id=0)

    def open_copies(client_id: int, env_params: np.ndarray, num_envs: int) -> PettingZooSimulator:
        return PettingZooSimulator(make_env, agents, num_envs, max_episode_steps, observations, actions, deadline)

    host = Host(
        open_copies,
        spaces.policy_observations(observations),
        spaces.policy_actions(actions),
        gamma,
        max_episode_steps,
        agents=len(agents),
        native_observations=observations,
        native_actions=actions,
    )
    return Federation(host, np.zeros(len(agents), np.int32))


def first_env(make_env: MakeParallelEnv) -> SubprocessEnv:
    """An environment to read agents and spaces from."""
    try:
        return SubprocessEnv(make_env)
    except EnvProcessDied:
        raise
    except Exception as error:
        raise ValueError(
            f"make_env() must return a PettingZoo parallel environment, but reading its agents and spaces raised "
            f"{type(error).__name__}: {error}; call make_env() on its own and fix that"
        ) from error


class PettingZooSimulator:
    """The `SharedSimulator`: one process per copy. Arrays have the axes [copies, agents, ...]."""

    def __init__(
        self,
        make_env: MakeParallelEnv,
        agents: list[str],
        num_envs: int,
        max_episode_steps: int,
        observations: Description,
        actions: Description,
        deadline: float = DEADLINE,
    ) -> None:
        self._make, self._agents, self._limit, self._deadline = make_env, agents, max_episode_steps, deadline
        self._observations, self._actions = observations, actions
        self._fault, self._warned = checks.observation_fault(observations), checks.WarnOnce()
        self._envs = [SubprocessEnv(make_env, deadline) for _ in range(num_envs)]
        self._seeds = [-1] * num_envs
        self._taken: list[list[np.ndarray]] = [[] for _ in range(num_envs)]
        self._obs: list[np.ndarray] = [np.zeros(0)] * num_envs
        self._action = np.zeros(0)  # the last actions, for their shape and dtype
        self.infos: list[dict[str, dict[str, Any]]] = [{} for _ in range(num_envs)]  # the last infos of each copy

    def restore(self, state: ReplayState) -> np.ndarray:
        """Replay the episodes of the copies that are not in `state`, because they are new or another run used them."""
        outdated = [copy for copy in range(len(self._envs)) if not self._is_at(copy, state)]
        self._begin(outdated, state.seed[outdated])
        for t in range(max(state.steps[outdated], default=0)):
            unfinished = [copy for copy in outdated if t < state.steps[copy]]
            self._advance(unfinished, state.actions[unfinished, t])
        return np.stack(self._obs)

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self._begin(rows, seeds)
        return np.stack([self._obs[copy] for copy in rows])

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        """Rewards are [copies, agents], terminated and truncated [copies]."""
        copies = list(range(len(self._envs))) if rows is None else rows.tolist()
        outcomes = self._advance(copies, actions)
        reward, terminated, truncated = (np.stack(x) for x in zip(*outcomes, strict=True))
        obs = np.stack([self._obs[copy] for copy in copies])
        if not (np.isfinite(obs).all() and np.isfinite(reward).all()):
            for client_id in range(len(self._agents)):
                checks.check_finite_rows(client_id, rows, obs[:, client_id], reward[:, client_id])
        checks.warn_of_size(int(np.abs(reward).max(axis=0).argmax()), reward, self._warned)
        return obs, reward, terminated, truncated

    def replay_state(self) -> ReplayState:
        actions = np.zeros((len(self._envs), self._limit, *self._action.shape), self._action.dtype)
        for copy, past_actions in enumerate(self._taken):
            if past_actions:
                actions[copy, : len(past_actions)] = past_actions
        return ReplayState(np.array(self._seeds, np.uint32), np.array([len(x) for x in self._taken], np.int32), actions)

    def call(self, copy: int, name: str | Callable[..., Any], *arguments: Any) -> Any:
        """Any method, attribute or function of one environment, as `SubprocessEnv.call`."""
        return self._envs[copy].call(name, *arguments)

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _is_at(self, copy: int, state: ReplayState) -> bool:
        same_length = self._seeds[copy] == int(state.seed[copy]) and len(self._taken[copy]) == int(state.steps[copy])
        return same_length and all(map(np.array_equal, self._taken[copy], state.actions[copy]))

    def _begin(self, rows: Sequence[int] | np.ndarray, seeds: np.ndarray) -> None:
        for copy, seed in zip(rows, seeds, strict=True):
            self._seeds[copy], self._taken[copy] = int(seed), []
        self._call_all(rows, [None] * len(rows))

    def _advance(self, rows: Sequence[int], actions: np.ndarray) -> list[Outcome]:
        """Step the copies `rows` with `actions` [rows, ...]."""
        outcomes = self._call_all(rows, list(actions))
        for copy, own_actions in zip(rows, actions, strict=True):
            self._action = own_actions
            self._taken[copy].append(np.array(own_actions))
        return outcomes

    def _call_all(self, rows: Sequence[int] | np.ndarray, actions: Sequence[np.ndarray | None]) -> list[Any]:
        """Send every copy its actions (None: start an episode), then collect the results. If one fails, close them all."""
        try:
            for copy, own in zip(rows, actions, strict=True):
                self._send(copy, own)
            return [self._receive_or_replay(copy, own) for copy, own in zip(rows, actions, strict=True)]
        except BaseException:
            self.close()
            raise

    def _receive_or_replay(self, copy: int, actions: np.ndarray | None) -> Outcome | None:
        """The result of the `actions` sent; if the process dies, replay its episode in a new one."""
        timeouts = 0
        for deaths in range(1, MAX_DEATHS + 1):
            try:
                if deaths > 1:
                    self._envs[copy] = SubprocessEnv(self._make, self._deadline)
                    self._replay(copy, actions)
                return self._receive(copy)
            except EnvProcessDied as error:
                last = error
                timeouts += isinstance(error, EnvProcessTimeout)
                if timeouts == MAX_TIMEOUTS:
                    break
            except EnvironmentFailed:
                raise
            except Exception as error:
                call = "reset" if actions is None else "step"
                raise EnvironmentFailed(
                    f"copy {copy} of the environment: {call} raised {type(error).__name__}: {error}; fix the environment"
                ) from error
        steps = len(self._taken[copy])
        raise EnvironmentFailed(
            f"the process of copy {copy} died {deaths} times in a row after {steps} steps of the episode with seed "
            f"{self._seeds[copy]} ({last}); run that episode on its own to find out why"
        )

    def _replay(self, copy: int, actions: np.ndarray | None) -> None:
        """Repeat its episode from the start, up to sending these actions."""
        self._send(copy, None)
        for past_actions in self._taken[copy] if actions is None else [*self._taken[copy], actions]:
            self._receive(copy)
            self._send(copy, past_actions)

    def _send(self, copy: int, actions: np.ndarray | None) -> None:
        env = self._envs[copy]
        if actions is None:
            env.ask("reset", self._seeds[copy], None)
        else:
            native = spaces.unflatten(self._actions, actions)
            env.ask("step", dict(zip(self._agents, native, strict=True)))

    def _receive(self, copy: int) -> Outcome | None:
        """None after a reset."""
        obs, *outcome, self.infos[copy] = self._envs[copy].answer()
        self._obs[copy] = self._flat(copy, "step" if outcome else "reset", obs)
        if not outcome:
            return None
        by_agent = [dict.fromkeys(self._agents) | part for part in outcome]  # None where an agent is missing
        rewards = [checks.reward_number(i, copy, by_agent[0][agent]) for i, agent in enumerate(self._agents)]
        terminated, truncated = (
            any(checks.flag(i, copy, name, by_agent[j][agent]) for i, agent in enumerate(self._agents))
            for j, name in ((1, "terminated"), (2, "truncated"))
        )
        return np.array(rewards, np.float32), terminated, truncated or len(self._taken[copy]) + 1 >= self._limit

    def _flat(self, copy: int, call: str, observations: Agents) -> np.ndarray:
        if missing := [agent for agent in self._agents if agent not in observations]:
            raise EnvironmentFailed(
                f"{missing[0]} left the episode before its end, but all agents must stay to the end; "
                "give agents that are gone an observation that says so"
            )
        native = [observations[agent] for agent in self._agents]
        if self._fault(native):
            for client_id, observation in enumerate(native):
                checks.check_observations(self._fault, client_id, [copy], call, [observation])
        return spaces.flatten(self._observations, native)
