"""Any Gymnasium environment as a federation: `make_env(client_id)` says how the clients differ."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from fedrl.environments.errors import WorldError, check_finite
from fedrl.environments.protocol import Box, Discrete, Host, Space
from fedrl.federation import Federation

MakeEnv = Callable[[int], gym.Env]
SEEDS = np.uint64(2**31)  # many environments take no larger ones


def gymnasium(make_env: MakeEnv, clients: int, *, gamma: float = 0.99, limit: int | None = None) -> Federation:
    """`clients` clients, of which client i has the environments that `make_env(i)` makes, one a copy.

    Observations from a Box are flattened to float32, those from a Discrete are int32 counted from 0. Actions for a Box
    are clipped to its bounds, then take its shape and dtype: a Gaussian policy may draw what the Box does not hold.

    An episode is cut after client 0's `max_episode_steps` or after `limit`, whichever is less; with neither, only the
    environment itself ends it. Client 0 is looked at now, the others when they are first used; all want its spaces.
    """
    if clients < 1 or not 0.0 < gamma <= 1.0 or (limit is not None and limit < 1):
        raise ValueError(
            f"wanted clients >= 1, 0 < gamma <= 1 and limit >= 1 or None, got {clients}, {gamma} and {limit}"
        )
    first = _made(make_env, 0)
    observations, actions = first.observation_space, first.action_space
    most = min((steps for steps in (_own_limit(first), limit) if steps), default=0)
    seen, done = space_of(observations, "observations"), space_of(actions, "actions")
    first.close()

    def copy_of(client_id: int) -> gym.Env:
        env = _made(make_env, client_id)
        for name, came, wanted in (
            ("observation", env.observation_space, observations),
            ("action", env.action_space, actions),
        ):
            if came != wanted:
                raise WorldError(
                    f"client {client_id}: {name} space {came}, wanted client 0's {wanted}; "
                    "one policy serves all clients, so mend make_env or leave the client out"
                )
        return TimeLimit(env, most) if most else env

    def opened(client_id: int, world: np.ndarray, copies: int) -> Copies:
        return Copies(client_id, copies, copy_of)

    return Federation(Host(opened, seen, done, gamma, most), np.arange(clients, dtype=np.int32))


class Copies:
    """The `Simulator` of one client: Gymnasium's own vector of environments, stepped one after the other."""

    def __init__(self, client_id: int, copies: int, copy_of: MakeEnv) -> None:
        self.client_id = client_id
        makers = [lambda: copy_of(client_id)] * copies
        self.envs = SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.DISABLED)

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """An environment is given the last 31 bits of its seed."""
        mask = np.zeros(self.envs.num_envs, bool)
        mask[rows] = True
        given: list[int | None] = [None] * self.envs.num_envs
        for row, seed in zip(rows, seeds, strict=True):
            given[row] = int(seed % SEEDS)
        with _blaming(self.client_id, "reset"):
            came, _ = self.envs.reset(seed=given, options={"reset_mask": mask})
        observations = plain(self.envs.single_observation_space, came)[rows]
        check_finite(self.client_id, observations)
        return observations

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rewards are float64."""
        with _blaming(self.client_id, "step"):
            came, rewards, done, cut, _ = self.envs.step(native(self.envs.single_action_space, actions))
        observations = plain(self.envs.single_observation_space, came)
        check_finite(self.client_id, observations, rewards)
        return observations, rewards, done, cut

    def close(self) -> None:
        self.envs.close()


def plain(space: gym.Space, came: np.ndarray) -> np.ndarray:
    """Observations [rows, ...] as policies see them: flat float32, or int32 counted from 0."""
    if isinstance(space, gym.spaces.Discrete):
        return (came - space.start).astype(np.int32)
    return came.reshape(len(came), -1).astype(np.float32)


def native(space: gym.Space, actions: np.ndarray) -> np.ndarray:
    """Actions [rows, ...] as the space has them; what a Box does not hold is clipped to it."""
    if isinstance(space, gym.spaces.Discrete):
        return actions.astype(space.dtype) + space.start
    assert isinstance(space, gym.spaces.Box)
    bounded = np.clip(actions.reshape(len(actions), *space.shape), space.low, space.high)
    return (np.rint(bounded) if np.issubdtype(space.dtype, np.integer) else bounded).astype(space.dtype)


def _made(make_env: MakeEnv, client_id: int) -> gym.Env:
    with _blaming(client_id, "make_env"):
        env = make_env(client_id)
    if not isinstance(env, gym.Env):
        raise WorldError(f"client {client_id}: make_env returned {type(env).__name__}, wanted a gymnasium.Env")
    return env


@contextmanager
def _blaming(client_id: int, call: str) -> Iterator[None]:
    try:
        yield
    except WorldError:
        raise
    except Exception as error:
        raise WorldError(
            f"client {client_id}: {call} raised {type(error).__name__}: {error}; mend it or leave the client out"
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


def space_of(space: gym.Space, what: str) -> Space:
    if isinstance(space, gym.spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, gym.spaces.Box):
        low, high = (tuple(map(float, bound.ravel())) for bound in (space.low, space.high))
        return Box((len(low),), low, high)
    raise WorldError(
        f"client 0: {what} come from {space}, supported are Box and Discrete; "
        "wrap the environment: gymnasium.wrappers has FlattenObservation and TransformAction"
    )
