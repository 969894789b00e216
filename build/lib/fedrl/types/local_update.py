"""What one client does during one exchange: a record of pure functions, and how they may be run.

The functions are typed by Protocols, so that a type checker reports one with the wrong arguments. `Local` is the client's
local state, `Traj` what it samples (usually a `Trajectory`), `Dir` the direction it estimates (usually a tree like theta).
"""

from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, cast

from jax import Array
from typing_extensions import TypeVar

from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types.clients import Client, Metrics

Local = TypeVar("Local", default=Any)
Traj = TypeVar("Traj", default=Any)
Dir = TypeVar("Dir", default=Any)
Local_co = TypeVar("Local_co", covariant=True, default=Any)
Local_contra = TypeVar("Local_contra", contravariant=True, default=Any)
Traj_co = TypeVar("Traj_co", covariant=True, default=Any)
Traj_contra = TypeVar("Traj_contra", contravariant=True, default=Any)
Dir_co = TypeVar("Dir_co", covariant=True, default=Any)
Dir_contra = TypeVar("Dir_contra", contravariant=True, default=Any)


class Start(Protocol[Local_co]):
    """Begin: the local state, from the server's message and what the client remembers."""

    def __call__(self, message: Any, client: Client, key: Key, /) -> Local_co: ...


class Sample(Protocol[Local_contra, Traj_co]):
    """Act: roll out in the client's own environment."""

    def __call__(self, local: Local_contra, client: Client, key: Key, /) -> Traj_co: ...


class SharedSample(Protocol[Local_contra, Traj_co]):
    """Act in one environment that all clients share: stacks in, a stack of trajectories and the next shared state out."""

    def __call__(
        self, local: Local_contra, clients: Client, shared_state: Tree, key: Key, /
    ) -> tuple[Traj_co, Tree]: ...


class Estimate(Protocol[Local, Traj_contra, Dir_co]):
    """Learn: a gradient-like tree from what was sampled, and the local state after learning it."""

    def __call__(self, local: Local, trajectory: Traj_contra, client: Client, key: Key, /) -> tuple[Dir_co, Local]: ...


class Apply(Protocol[Local, Dir_contra]):
    """Move: the local state after a step along the direction."""

    def __call__(self, local: Local, direction: Dir_contra, client: Client, /) -> Local: ...


class Finish(Protocol[Local_contra]):
    """End: the upload, what the client keeps (() if unchanged), and the environment steps it took."""

    def __call__(self, local: Local_contra, client: Client, /) -> tuple[Tree, Tree, Array]: ...


class StepsOf(Protocol):
    """tau_i: how many local steps this client takes, at most `local_steps`."""

    def __call__(self, client: Client, key: Key, /) -> Array: ...


class Possible(Protocol):
    """Whether an upload can be true, as a boolean scalar."""

    def __call__(self, upload: Tree, client: Client, /) -> Array: ...


class MovingPart(Protocol):
    """The part of an upload, or of a stack of uploads, that moves parameters: its norm may be limited."""

    def __call__(self, upload: Tree, /) -> Tree: ...


class ClientMetrics(Protocol[Local_contra]):
    """Named float32 scalars of the client's last local state."""

    def __call__(self, local: Local_contra, client: Client, /) -> Metrics: ...


def no_metrics(local: Any, client: Client) -> Metrics:
    return {}


class Mode(Enum):
    """How a local update is run. One value, so that a combination that no engine can run cannot be written."""

    COMPILED = "compiled"  # all of it can be compiled
    COMPILED_IN_TURN = "compiled in turn"  # the same, but one client at a time: loops whose length depends on the data
    SIMULATED = "simulated"  # `sample` runs simulators; everything else can be compiled
    PYTHON = "python"  # `sample`, `estimate` and `apply` are ordinary Python (torch, say)
    SHARED_COMPILED = "shared compiled"  # clients act in one environment: `sample` is a `SharedSample`
    SHARED_SIMULATED = "shared simulated"  # the same, and that environment is a simulator

    @staticmethod
    def of(*, compiled: bool, shared_env: bool = False) -> "Mode":
        """The mode of a learner that JAX can compile, in this kind of environment."""
        if shared_env:
            return Mode.SHARED_COMPILED if compiled else Mode.SHARED_SIMULATED
        return Mode.COMPILED if compiled else Mode.SIMULATED

    @property
    def compiled(self) -> bool:
        """Whether `sample` can be compiled."""
        return self in (Mode.COMPILED, Mode.COMPILED_IN_TURN, Mode.SHARED_COMPILED)

    @property
    def shared_env(self) -> bool:
        """Whether clients act in one environment."""
        return self in (Mode.SHARED_COMPILED, Mode.SHARED_SIMULATED)


class LocalUpdate(NamedTuple, Generic[Local, Traj, Dir]):
    """What one client does during one exchange; it sees nobody else."""

    start: Start[Local]
    sample: Sample[Local, Traj] | SharedSample[Local, Traj]  # `mode` says which
    estimate: Estimate[Local, Traj, Dir]
    apply: Apply[Local, Dir]
    finish: Finish[Local]
    local_steps: int = 1  # the most that any client takes
    steps_of: StepsOf | None = None  # None: everyone takes `local_steps`
    mode: Mode = Mode.COMPILED
    most_env_steps: int = 0  # that one local step can take, 0 if unknown: an answer that claims more is a fault
    possible: Possible | None = None  # None: whatever is finite
    moved: MovingPart | None = None  # None: all of it
    metrics: ClientMetrics[Local] = no_metrics  # averaged over the cohort and logged as "train/…"

    @property
    def own_sample(self) -> Sample[Local, Traj]:
        """`sample`, of a client that acts in an environment of its own."""
        if self.mode.shared_env:
            raise TypeError("these clients share an environment; use shared_sample")
        return cast(Sample[Local, Traj], self.sample)

    @property
    def shared_sample(self) -> SharedSample[Local, Traj]:
        """`sample`, of all clients of a shared environment."""
        if not self.mode.shared_env:
            raise TypeError("each of these clients has an environment of its own; use own_sample")
        return cast(SharedSample[Local, Traj], self.sample)
