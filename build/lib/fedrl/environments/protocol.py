"""What an environment is: pure functions of a world (its parameters), so heterogeneity is one stacked array.

All randomness of an episode is drawn in bulk by `noise` before it starts; stepping is then deterministic. A simulator that
cannot be compiled (MuJoCo, any Gymnasium environment) is a `Host`: it opens batches of copies that step on the processor.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from jax import Array


class Discrete(NamedTuple):
    n: int


class Box(NamedTuple):
    """Arrays of this shape; `low` and `high` bound every entry, flattened (infinite where there is no bound)."""

    shape: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


class MultiDiscrete(NamedTuple):
    """Several finite choices at once, `sizes[i]` of them in dimension i: an int32 vector, each entry counted from 0."""

    sizes: tuple[int, ...]


Space = Discrete | MultiDiscrete | Box


def element(space: Space) -> tuple[tuple[int, ...], type]:
    """Shape and dtype of one element."""
    if isinstance(space, Box):
        return space.shape, np.float32
    return (() if isinstance(space, Discrete) else (len(space.sizes),)), np.int32


class Step(NamedTuple):
    state: Any
    reward: Array
    terminated: Array  # the task is over: nothing is earned after this
    truncated: Array | np.ndarray = np.zeros(
        (), bool
    )  # out of time: the episode stops here, though more could be earned


class Environment(NamedTuple):
    prepare: Callable  # (world)                        -> prepared world, once per roll-out
    reset: Callable  # (prepared, noise)              -> state
    step: Callable  # (prepared, state, action, noise) -> Step
    observe: Callable  # (prepared, state)              -> observation
    noise: Callable  # (key, shape)                   -> noise for reset and step, [*shape, ...]
    observations: Discrete | Box
    actions: Space
    gamma: float
    max_episode_steps: int = 0  # the most steps an episode of any world may take; 0: it ends by discounting only
    agents: int = (
        0  # 0: a client has a world to itself. m: m clients meet in one, and observations, actions and rewards
    )
    #                  have a leading axis of m, while `terminated` and `truncated` are of the world; `observations`, `actions` are one's


class Simulator(Protocol):
    """`num_envs` instances of one client's environment, stepped together. Arrays are NumPy, one row a copy."""

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Begin new episodes in the copies `rows`, each from its own seed (uint64); their observations [rows, ...]."""
        ...

    def step(
        self, actions: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """One step of every copy, or only of the copies `rows`: observations (before any reset), rewards, done, cut.

        Actions and answers have one row for each copy that is stepped; the other copies stay as they are.
        """
        ...

    def close(self) -> None: ...


class Host(NamedTuple):
    """An environment outside the compiled program."""

    open: Callable[[int, Any, int], Simulator]  # (client id, world as NumPy, copies) -> Simulator
    observations: Discrete | Box
    actions: Space
    gamma: float
    max_episode_steps: int = 0
    agents: int = 0  # as of an Environment
    native_observations: dict[str, Any] | None = None  # what the simulator itself says and takes, where that is known:
    native_actions: dict[str, Any] | None = None  # descriptions as in `spaces`, the same for every client


class AnyEnvironment(Protocol):
    """What a federation asks of its environment: `Environment`, `Host`, or `llm.tasks.TextEnvironment`."""

    @property
    def gamma(self) -> float: ...


def stepwise(environment: AnyEnvironment) -> Environment | Host:
    """`environment`, or a `TypeError` if its observations and actions are not arrays."""
    if isinstance(environment, Environment | Host):
        return environment
    raise TypeError(
        f"this needs an environment whose observations and actions are arrays, got a {type(environment).__name__}; "
        "language agents train with fedrl.llm.learner.grpo and are evaluated with fedrl.llm.evaluation.held_out"
    )


def finite_sizes(environment: Environment | Host) -> tuple[int, int]:
    """How many observations and actions there are, or a `ValueError` where a table cannot hold them."""
    observations, actions = environment.observations, environment.actions
    if isinstance(observations, Discrete) and isinstance(actions, Discrete):
        return observations.n, actions.n
    raise ValueError(
        f"a table wants finite observations and actions, got {observations} and {actions}; "
        "use a network: fedrl.policies.mlp.mlp(64, 64)"
    )
