"""Any Gymnasium environment as a federation: `make_env(client_id)` says how the clients differ."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from fedrl.arguments import checked
from fedrl.environments import checks, gymnasium_ids, spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host
from fedrl.environments.spaces import Description
from fedrl.federations.federation import Federation

MakeEnv = Callable[[int], gym.Env]
SEEDS = np.uint64(2**31)  # many environments take no larger ones
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
    """`clients` clients, of which client i has the environments that `make_env(i)` makes, one a copy.

    An id, `gymnasium("CartPole-v1", clients=8)`, gives all clients the same environment.

    Observations are flattened to float32 (Dict and Tuple part after part, as Gymnasium's `flatten` does); those from a
    Discrete are int32 counted from 0. Actions for a Box are clipped to its bounds, then take its shape and dtype: a Gaussian
    policy may draw what the Box does not hold. MultiDiscrete and MultiBinary actions have one categorical per dimension.

    `rescale=True` maps the bounds of every Box to [-1, 1], of actions and of observations, entry by entry where there are
    two bounds: clients whose bounds differ then share one policy.

    An episode is cut after client 0's `max_episode_steps` or after `max_episode_steps`, whichever is less; with neither, only the
    environment itself ends it. Client 0 is looked at now, the others when they are first used; all want its spaces. What
    environments answer is checked at every step, see `checks.observation_fault` for how strictly.
    """
    if clients < 1 or not 0.0 < gamma <= 1.0 or (max_episode_steps is not None and max_episode_steps < 1):
        raise ValueError(
            f"wanted clients >= 1, 0 < gamma <= 1 and limit >= 1 or None, got {clients}, {gamma} and {max_episode_steps}"
        )
    name, make_env = (make_env, gymnasium_ids.maker(make_env)) if isinstance(make_env, str) else ("", make_env)
    first = _made(make_env, 0)
    if name:
        vars(make_env).update(arguments=("gymnasium.make", gymnasium_ids.settings(name, first)))
    most = min((steps for steps in (_own_limit(first), max_episode_steps) if steps), default=0)
    wanted = described(first.observation_space, first.action_space, 0, rescale)
    shown = {"observation": first.observation_space, "action": first.action_space}
    first.close()
    warned = checks.Once()

    def copy_of(client_id: int) -> gym.Env:
        env = _made(make_env, client_id)
        came = {"observation": env.observation_space, "action": env.action_space}
        found = described(env.observation_space, env.action_space, client_id, rescale)
        for name, own, theirs in zip(came, found, wanted, strict=True):
            if spaces.common(own) != spaces.common(theirs):
                raise EnvironmentFailed(
                    f"client {client_id}: {name} space {came[name]}, wanted client 0's {shown[name]}; "
                    + _hint(came[name], shown[name], rescale)
                )
        return TimeLimit(env, most) if most else env

    def opened(client_id: int, env_params: np.ndarray, num_envs: int) -> Copies:
        return Copies(client_id, [copy_of(client_id) for _ in range(num_envs)], rescale, warned)

    host = Host(
        opened,
        spaces.observed(wanted[0]),
        spaces.acted(wanted[1]),
        gamma,
        most,
        native_observations=spaces.common(wanted[0]),
        native_actions=spaces.common(wanted[1]),
    )
    return Federation(host, np.arange(clients, dtype=np.int32))


class Copies:
    """The `Simulator` of one client: environments stepped one after the other."""

    def __init__(self, client_id: int, envs: list[gym.Env], rescale: bool, warned: checks.Once) -> None:
        self.client_id, self.envs, self.warned = client_id, envs, warned
        spaces_of = envs[0].observation_space, envs[0].action_space
        self.observations, self.actions = described(*spaces_of, client_id, rescale)
        self.fault = checks.observation_fault(self.observations)

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """An environment is given the last 31 bits of its seed."""
        with _blaming(self.client_id, "reset"):
            given = zip(rows.tolist(), seeds, strict=True)
            answers = [self.envs[row].reset(seed=int(seed % SEEDS)) for row, seed in given]
        came = [checks.answer_of(self.client_id, "reset", answer, RESET)[0] for answer in answers]
        checks.check_observations(self.fault, self.client_id, rows.tolist(), "reset", came)
        return self._flat(came, rows)

    def step(
        self, actions: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rewards are float64."""
        who = list(range(len(self.envs))) if rows is None else rows.tolist()
        with _blaming(self.client_id, "step"):
            given = zip(who, spaces.unflatten(self.actions, actions), strict=True)
            answers = [self.envs[row].step(action) for row, action in given]
        for answer in answers:
            checks.answer_of(self.client_id, "step", answer, STEP)
        seen, paid, ended, stopped, _ = zip(*answers, strict=True)
        checks.check_observations(self.fault, self.client_id, who, "step", seen)
        rewards = np.array([checks.reward_number(self.client_id, *x) for x in zip(who, paid, strict=True)], np.float64)
        terminated, truncated = (
            np.array([checks.flag(self.client_id, row, name, x) for row, x in zip(who, flags, strict=True)], bool)
            for name, flags in (("terminated", ended), ("truncated", stopped))
        )
        observations = self._flat(seen, rows, rewards)
        checks.warn_of_size(self.client_id, rewards, self.warned)
        return observations, rewards, terminated, truncated

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _flat(
        self, observations: Sequence[Any], rows: np.ndarray | None, rewards: np.ndarray | None = None
    ) -> np.ndarray:
        flat = spaces.flatten(self.observations, observations)
        checks.check_finite_rows(self.client_id, rows, flat, rewards)
        return flat


def described(observations: gym.Space, actions: gym.Space, client_id: int, rescale: bool = False) -> list[Description]:
    """Of both spaces, or a `EnvironmentFailed` that says which of them no policy can serve."""
    found = [_described(observations, "observations", spaces.observed, client_id, rescale)]
    return [*found, _described(actions, "actions", spaces.acted, client_id, rescale)]


def _described(space: gym.Space, what: str, read: Callable, client_id: int, rescale: bool) -> Description:
    try:
        found = spaces.describe(space, rescale=rescale)
        read(found)
    except ValueError as error:
        raise EnvironmentFailed(
            f"client {client_id}: {what} come from {space}, supported are {SUPPORTED[what]}; "
            f"wrap the environment with gymnasium.wrappers.{WRAPPERS[what]}"
        ) from error
    return found


def _hint(came: gym.Space, wanted: gym.Space, rescale: bool) -> str:
    """What to do about a client whose space is another."""
    only_bounds, other = (spaces.common(spaces.describe(space, rescale=True)) for space in (came, wanted))
    if not rescale and only_bounds == other:
        return (
            "only their bounds differ: fedrl.gymnasium(..., rescale=True) maps every client's to [-1, 1]; "
            "or leave the client out"
        )
    return "one policy serves all clients, so fix make_env or leave the client out"


def _made(make_env: MakeEnv, client_id: int) -> gym.Env:
    with _blaming(client_id, "make_env"):
        env = make_env(client_id)
    if not isinstance(env, gym.Env):
        raise EnvironmentFailed(f"client {client_id}: make_env returned {type(env).__name__}, wanted a gymnasium.Env")
    return env


@contextmanager
def _blaming(client_id: int, call: str) -> Iterator[None]:
    try:
        yield
    except EnvironmentFailed:
        raise
    except (Exception, SystemExit) as error:
        raise EnvironmentFailed(
            f"client {client_id}: {call} raised {type(error).__name__}: {error}; fix it or leave the client out"
        ) from error


def _own_limit(env: gym.Env) -> int | None:
    """The time limit an environment comes with, in its spec or as a wrapper without one."""
    if env.spec is not None and env.spec.max_episode_steps:
        return env.spec.max_episode_steps
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            return env._max_episode_steps
        env = env.env
    return None
