"""The environment interface: pure functions of parameters (`env_params`), so heterogeneous clients are one stacked array.

`noise` draws all randomness of an episode in bulk before it starts; stepping is then deterministic. A simulator that cannot
be compiled (MuJoCo, any Gymnasium environment) is a `Host`: it opens batches of copies that step outside the program.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from jax import Array

from fedrl.keys import Key


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
    terminated: Array  # the task is over: later rewards are zero
    truncated: Array | np.ndarray = np.zeros((), bool)  # out of time: the episode stops, although rewards could follow


class PrepareParams(Protocol):
    """The form of a client's parameters that the other functions take, computed once per roll-out."""

    def __call__(self, env_params: Any, /) -> Any: ...


class ResetState(Protocol):
    """The first state of an episode; a deterministic function of the noise."""

    def __call__(self, prepared: Any, noise: Any, /) -> Any: ...


class StepState(Protocol):
    """The next state, its reward, and whether the episode ends; a deterministic function of the noise."""

    def __call__(self, prepared: Any, state: Any, action: Any, noise: Any, /) -> Step: ...


class Observe(Protocol):
    """The policy's observation of a state."""

    def __call__(self, prepared: Any, state: Any, /) -> Any: ...


class EnvironmentNoise(Protocol):
    """Noise for resets and steps, drawn in bulk: [*shape, ...]."""

    def __call__(self, key: Key, shape: tuple[int, ...], /) -> Any: ...


class Environment(NamedTuple):
    """An environment inside the compiled program: pure functions of its parameters."""

    prepare: PrepareParams
    reset: ResetState
    step: StepState
    observe: Observe
    noise: EnvironmentNoise
    observations: Discrete | Box  # of one agent
    actions: Space  # of one agent
    gamma: float
    max_episode_steps: int = 0  # longest episode with any parameters; 0: only discounting ends an episode
    agents: int = 0  # 0: every client has an environment of its own. m: m clients share one; observations, actions and
    #                  rewards then have a leading axis of m, `terminated` and `truncated` do not


StepArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # observations, rewards, terminated, truncated


class Simulator(Protocol):
    """`num_envs` copies of one client's environment, stepped together. Arrays are NumPy, one row per copy."""

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Start new episodes in the copies `rows`, each from its own seed (uint64); returns observations [rows, ...]."""
        ...

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> StepArrays:
        """Step every copy, or only the copies `rows`. Observations are those before any reset.

        Actions and results have one row per copy that is stepped; the other copies stay as they are.
        """
        ...

    def close(self) -> None: ...


class ReplayState(NamedTuple):
    """How to bring the copies of a shared simulator to where they are; every field but `run` is [copies, ...]."""

    seed: Any  # uint32
    steps: Any  # int32 taken so far
    actions: Any  # [copies, max_episode_steps, agents, ...], of which the first `steps` count
    run: Any = 0  # uint32, one number that identifies the run, the same from start to end


class SharedSimulator(Simulator, Protocol):
    """A Simulator that can be brought to a given state; `open` of a Host with agents returns one."""

    def restore(self, state: ReplayState) -> np.ndarray:
        """Replay what is missing, if anything; returns the observations [copies, agents, ...]."""
        ...

    def replay_state(self) -> ReplayState:
        """Where the copies are now; `run` is left to the caller."""
        ...


class OpenSimulator(Protocol):
    """Open `num_envs` copies of a client's environment; `env_params` are NumPy arrays."""

    def __call__(self, client_id: int, env_params: Any, num_envs: int, /) -> Simulator: ...


class Host(NamedTuple):
    """An environment outside the compiled program."""

    open: OpenSimulator
    observations: Discrete | Box
    actions: Space
    gamma: float
    max_episode_steps: int = 0
    agents: int = 0  # as in an Environment
    native_observations: dict[str, Any] | None = None  # spaces of the simulator itself, where known: descriptions as in
    native_actions: dict[str, Any] | None = None  # `spaces`, the same for every client


class AnyEnvironment(Protocol):
    """The fields that a federation needs of its environment: `Environment`, `Host` or `llm.tasks.TextEnvironment`."""

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
    """The numbers of observations and actions; `ValueError` if they are not finite."""
    observations, actions = environment.observations, environment.actions
    if isinstance(observations, Discrete) and isinstance(actions, Discrete):
        return observations.n, actions.n
    raise ValueError(
        f"a table needs finite observations and actions, got {observations} and {actions}; "
        "use a network: fedrl.policies.mlp.mlp(64, 64)"
    )
