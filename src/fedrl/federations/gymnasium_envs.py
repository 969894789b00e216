"""Any Gymnasium environment as a federation: `make_env(client_id)` returns the environment of each client."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from fedrl.arguments import checked
from fedrl.environments import checks, gymnasium_ids, spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host, Space, StepArrays
from fedrl.environments.spaces import Description
from fedrl.federations.federation import Federation

Env = gym.Env[Any, Any]
MakeEnv = Callable[[int], Env]
CheckSpaces = Callable[[int, Env, Sequence[Description]], None]  # (client, its environment, both spaces as described)
SEEDS = np.uint64(2**31)  # many environments accept no larger seeds
RESET = ("observation", "info")
STEP = ("observation", "reward", "terminated", "truncated", "info")
SUPPORTED = {
    "observations": "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these",
    "actions": "Box, Discrete, MultiDiscrete and MultiBinary",
}
WRAPPERS = {"observations": "TransformObservation", "actions": "TransformAction"}


@checked
def gymnasium(
    make_env: MakeEnv | str,
    clients: int,
    *,
    gamma: float = 0.99,
    max_episode_steps: int | None = None,
    rescale: bool = False,
) -> Federation:
    """`clients` clients; client i has the environments that `make_env(i)` returns, one per copy.

    An id, `gymnasium("CartPole-v1", clients=8)`, gives all clients the same environment.

    Observations are flattened to float32 (Dict and Tuple part after part, as Gymnasium's `flatten` does); those from a
    Discrete are int32 counted from 0. Actions for a Box are clipped to its bounds, as a Gaussian policy may leave them, then
    cast to its shape and dtype. MultiDiscrete and MultiBinary actions have one categorical per dimension.

    `rescale=True` maps the bounds of every Box to [-1, 1], of actions and of observations, in every entry that has two
    bounds: clients whose bounds differ then share one policy.

    An episode is truncated after `max_episode_steps` or the time limit that client 0's environment has, whichever is
    less; with neither, only the environment itself ends it. Client 0's environment is made now, the others when they are
    first used; all must have the same spaces as client 0's. Every result of an environment is checked, see
    `checks.observation_fault`.
    """
    if clients < 1 or not 0.0 < gamma <= 1.0 or (max_episode_steps is not None and max_episode_steps < 1):
        raise ValueError(
            "expected clients >= 1, 0 < gamma <= 1 and max_episode_steps >= 1 or None, "
            f"got {clients}, {gamma} and {max_episode_steps}"
        )
    name, make_env = (make_env, gymnasium_ids.maker(make_env)) if isinstance(make_env, str) else ("", make_env)
    first = _make(make_env, 0)
    if name:
        vars(make_env).update(arguments=("gymnasium.make", gymnasium_ids.settings(name, first)))
    most = min((steps for steps in (_own_limit(first), max_episode_steps) if steps), default=0)
    expected = describe_spaces(first.observation_space, first.action_space, 0, rescale)
    expected_spaces = {"observation": first.observation_space, "action": first.action_space}
    first.close()

    def check(client_id: int, env: Env, described: Sequence[Description]) -> None:
        own_spaces = {"observation": env.observation_space, "action": env.action_space}
        for name, own, other in zip(own_spaces, described, expected, strict=True):
            if spaces.common(own) != spaces.common(other):
                raise EnvironmentFailed(
                    f"client {client_id}: {name} space {own_spaces[name]}, expected client 0's {expected_spaces[name]}; "
                    + _hint(own_spaces[name], expected_spaces[name], rescale)
                )

    host = host_of(make_env, expected, check, gamma=gamma, max_episode_steps=most, rescale=rescale)
    return Federation(host, np.arange(clients, dtype=np.int32))


def host_of(
    make_env: MakeEnv, expected: Sequence[Description], check: CheckSpaces, *,
    gamma: float, max_episode_steps: int, rescale: bool,
) -> Host:  # fmt: skip
    """Environments with the `expected` spaces of observations and actions. `check` raises where a client's differ."""
    warned = checks.WarnOnce()

    def make_copy(client_id: int) -> Env:
        env = _make(make_env, client_id)
        check(client_id, env, describe_spaces(env.observation_space, env.action_space, client_id, rescale))
        return TimeLimit(env, max_episode_steps) if max_episode_steps else env

    def open_copies(client_id: int, env_params: np.ndarray, num_envs: int) -> GymnasiumSimulator:
        return GymnasiumSimulator(client_id, [make_copy(client_id) for _ in range(num_envs)], rescale, warned)

    return Host(
        open_copies,
        spaces.policy_observations(expected[0]),
        spaces.policy_actions(expected[1]),
        gamma,
        max_episode_steps,
        native_observations=spaces.common(expected[0]),
        native_actions=spaces.common(expected[1]),
    )


class GymnasiumSimulator:
    """The `Simulator` of one client: environments stepped one after the other."""

    def __init__(self, client_id: int, envs: list[Env], rescale: bool, warned: checks.WarnOnce) -> None:
        self.client_id, self.envs, self.warned = client_id, envs, warned
        own_spaces = envs[0].observation_space, envs[0].action_space
        self.observations, self.actions = describe_spaces(*own_spaces, client_id, rescale)
        self.fault = checks.observation_fault(self.observations)

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Every environment gets the last 31 bits of its seed."""
        with naming_client(self.client_id, "reset"):
            pairs = zip(rows.tolist(), seeds, strict=True)
            results = [self.envs[row].reset(seed=int(seed % SEEDS)) for row, seed in pairs]
        observations = [checks.check_result(self.client_id, "reset", result, RESET)[0] for result in results]
        checks.check_observations(self.fault, self.client_id, rows.tolist(), "reset", observations)
        return self._checked(observations, rows)

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        """Rewards are float64."""
        copies = list(range(len(self.envs))) if rows is None else rows.tolist()
        with naming_client(self.client_id, "step"):
            pairs = zip(copies, self.native_actions(actions), strict=True)
            results = [self.envs[copy].step(action) for copy, action in pairs]
        for result in results:
            checks.check_result(self.client_id, "step", result, STEP)
        observations, raw_rewards, terminations, truncations, _ = zip(*results, strict=True)
        checks.check_observations(self.fault, self.client_id, copies, "step", observations)
        rewards = np.array(
            [checks.reward_number(self.client_id, *x) for x in zip(copies, raw_rewards, strict=True)], np.float64
        )
        terminated, truncated = (
            np.array([checks.flag(self.client_id, copy, name, x) for copy, x in zip(copies, flags, strict=True)], bool)
            for name, flags in (("terminated", terminations), ("truncated", truncations))
        )
        flat = self._checked(observations, rows, rewards)
        checks.warn_of_size(self.client_id, rewards, self.warned)
        return flat, rewards, terminated, truncated

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def native_actions(self, actions: np.ndarray) -> Any:
        """The environments' own actions, one per row."""
        return spaces.unflatten(self.actions, actions)

    def flat(self, observations: Sequence[Any]) -> np.ndarray:
        """The environments' own observations as policies see them, one row each."""
        return spaces.flatten(self.observations, observations)

    def _checked(
        self, observations: Sequence[Any], rows: np.ndarray | None, rewards: np.ndarray | None = None
    ) -> np.ndarray:
        flat = self.flat(observations)
        checks.check_finite_rows(self.client_id, rows, flat, rewards)
        return flat


def describe_spaces(
    observations: gym.Space[Any], actions: gym.Space[Any], client_id: int, rescale: bool = False
) -> list[Description]:
    """Descriptions of both spaces, or an `EnvironmentFailed` that names the space no policy can serve."""
    described = [_describe(observations, "observations", spaces.policy_observations, client_id, rescale)]
    return [*described, _describe(actions, "actions", spaces.policy_actions, client_id, rescale)]


def _describe(
    space: gym.Space[Any], kind: str, check: Callable[[Description], Space], client_id: int, rescale: bool
) -> Description:
    try:
        description = spaces.describe(space, rescale=rescale)
        check(description)
    except ValueError as error:
        raise EnvironmentFailed(
            f"client {client_id}: {kind} come from {space}, supported are {SUPPORTED[kind]}; "
            f"wrap the environment with gymnasium.wrappers.{WRAPPERS[kind]}"
        ) from error
    return description


def _hint(own: gym.Space[Any], expected: gym.Space[Any], rescale: bool) -> str:
    """Advice for a client whose space differs."""
    only_bounds, other = (spaces.common(spaces.describe(space, rescale=True)) for space in (own, expected))
    if not rescale and only_bounds == other:
        return (
            "only their bounds differ: fedrl.gymnasium(..., rescale=True) maps every client's to [-1, 1]; "
            "or exclude this client"
        )
    return "one policy serves all clients, so fix make_env or exclude this client"


def _make(make_env: MakeEnv, client_id: int) -> Env:
    with naming_client(client_id, "make_env"):
        env = make_env(client_id)
    if not isinstance(env, gym.Env):
        raise EnvironmentFailed(
            f"client {client_id}: make_env returned {type(env).__name__}, expected a gymnasium.Env; fix make_env"
        )
    for space in ("observation_space", "action_space"):
        if not hasattr(env, space):
            raise EnvironmentFailed(
                f"client {client_id}: {type(env.unwrapped).__name__} has no {space}, expected one of gymnasium.spaces; "
                f"set self.{space} in its __init__"
            )
    return env


@contextmanager
def naming_client(client_id: int, call: str) -> Iterator[None]:
    """Turn any exception into an `EnvironmentFailed` that names the client."""
    try:
        yield
    except EnvironmentFailed:
        raise
    except (Exception, SystemExit) as error:
        raise EnvironmentFailed(
            f"client {client_id}: {call} raised {type(error).__name__}: {error}; fix it or exclude this client"
        ) from error


def _own_limit(env: Env) -> int | None:
    """The time limit that an environment comes with: of its spec, or of a wrapper if it has no spec."""
    if env.spec is not None and env.spec.max_episode_steps:
        return env.spec.max_episode_steps
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            return env._max_episode_steps
        env = env.env
    return None
