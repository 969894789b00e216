"""One trip server → chosen clients → server, and the list of them that makes an algorithm."""

from typing import Any, NamedTuple, Protocol

from jax import Array

from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types.clients import Client, Cohort, Metrics, Server
from fedrl.types.local_update import LocalUpdate
from fedrl.types.policy import AnyPolicy

TRAIN = "train"  # the name of the exchange in which clients learn


class Encode(Protocol):
    """On the client: what travels in place of the upload. `slot` is the client's place in the cohort."""

    def __call__(self, upload: Tree, cohort: Cohort, slot: Any, key: Key, /) -> Tree: ...


class Decode(Protocol):
    """On the server: the aggregate of uploads from the aggregate of what travelled."""

    def __call__(self, aggregate: Tree, cohort: Cohort, key: Key, /) -> Tree: ...


class Channel(NamedTuple):
    """A layer around the upload: acts on the client, undone on the server."""

    encode: Encode
    decode: Decode
    perturbs: str | None = None  # what it does to numbers ("adds noise"): then it must not carry the counts of filters


class Choose(Protocol):
    """Draw the cohort."""

    def __call__(self, server: Server, key: Key, /) -> Cohort: ...


class Send(Protocol):
    """What one client is sent."""

    def __call__(self, server: Server, client_id: Array, /) -> Any: ...


class Combine(Protocol):
    """From the stack of uploads, in ascending client id, to their aggregate."""

    def __call__(self, uploads: Tree, cohort: Cohort, /) -> Tree: ...


class Receive(Protocol):
    """The next server, and what to log of it."""

    def __call__(self, server: Server, aggregate: Tree, cohort: Cohort, key: Key, /) -> tuple[Server, Metrics]: ...


class Mix(Protocol):
    """What clients tell each other before each local step: a stack of directions in, a stack out."""

    def __call__(self, directions: Tree, cohort: Cohort, /) -> Tree: ...


class ReportMetrics(Protocol):
    """From the stack of clients' metrics to those of the exchange."""

    def __call__(self, metrics: Metrics, cohort: Cohort, /) -> Metrics: ...


class Exchange(NamedTuple):
    """One trip: server -> chosen clients -> server."""

    name: str  # "train", "report", "measure": also the address of its randomness
    choose: Choose
    send: Send
    local: LocalUpdate
    combine: Combine
    receive: Receive
    channel: Channel
    mix: Mix | None = None
    report: ReportMetrics | None = None  # None: the clients' means


class Init(Protocol):
    """The first server of a seed."""

    def __call__(self, key: Key, /) -> Server: ...


class Answer(Protocol):
    """The parameters to evaluate."""

    def __call__(self, server: Server, /) -> Tree: ...


class InitMemory(Protocol):
    """What a client remembers before its first exchange."""

    def __call__(self, client_id: Array, key: Key, /) -> Tree: ...


class ParametersOf(Protocol):
    """The policy's parameters that this client acts with, from theta (or an algorithm's answer)."""

    def __call__(self, theta: Tree, client: Client, /) -> Tree: ...


class InitSharedState(Protocol):
    """The first state of the environment that all clients share."""

    def __call__(self, env_params: Tree, key: Key, /) -> Tree: ...


def no_memory(client_id: Array, key: Key) -> Tree:
    return ()


def no_shared_state(env_params: Tree, key: Key) -> Tree:
    return ()


def theta_itself(theta: Tree, client: Client) -> Tree:
    return theta


class Algorithm(NamedTuple):
    """A federated algorithm is a list of exchanges."""

    init: Init
    exchanges: tuple[Exchange, ...]  # in order; each may depend on what the last one changed
    answer: Answer
    policy: AnyPolicy  # how those parameters act
    opening: tuple[Exchange, ...] = ()  # played once, before the first round
    memory: InitMemory = no_memory
    theta_of: ParametersOf = theta_itself
    init_shared_state: InitSharedState = no_shared_state

    @property
    def training(self) -> Exchange:
        """The exchange in which clients learn: the one named "train", of which every method has one."""
        (train,) = (exchange for exchange in self.exchanges if exchange.name == TRAIN)
        return train

    def with_training(self, train: Exchange) -> "Algorithm":
        """The same algorithm with another exchange in the place of `training`."""
        return self._replace(exchanges=tuple(train if e.name == TRAIN else e for e in self.exchanges))
