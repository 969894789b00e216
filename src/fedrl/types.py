"""The central types. A federated algorithm is a list of exchanges, each a record of pure functions.

`Tree` is any pytree; a *stack* is a tree whose leaves have a leading client axis.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import Array

from fedrl import trees
from fedrl.trees import Tree

Server = Any
Message = Any
Metrics = dict[str, Array]


class Client(NamedTuple):
    """One client. A row of a stack when fused; alone on its machine otherwise."""

    id: Array  # the only name a client has; keys and sorting use it
    env_params: Tree  # parameters of its environment
    profile: Tree  # facts about it: weight q, local steps, delay
    memory: Tree  # what it keeps between rounds; never uploaded


class Cohort(NamedTuple):
    """Who was asked, how much each counts, and who answered."""

    ids: Array  # [c] ascending
    weight: Array  # [c] q', sums to one over those present
    present: Array  # [c] False: dropped out, or padding
    staleness: Array  # [c] rounds since the broadcast it worked from


class Clients(NamedTuple):
    """All clients of one seed."""

    key: Array  # where drawn environments come from
    env_params: Tree  # a stack, or () where they are shared by all seeds or drawn on demand
    memory: Tree  # a stack
    faults: dict[str, Array]  # of every exchange, [count] int32: faults in a row
    shared_state: Tree = ()  # the environment that clients share, where they do

    def keeping(self, cohort: Cohort, memory: Tree) -> "Clients":
        """With the new memories of those present; () leaves all memories unchanged."""
        if not jax.tree.leaves(memory):
            return self
        return self._replace(memory=trees.put(self.memory, cohort.ids, memory, cohort.present))


class LocalUpdate(NamedTuple):
    """What one client does during one exchange; it sees nobody else."""

    start: Callable  # (message, client, key)           -> local
    sample: Callable  # (local, client, key)             -> seen              act: roll out in its world
    estimate: Callable  # (local, seen, client, key)       -> direction, local  learn: a gradient-like tree
    apply: Callable  # (local, direction, client)       -> local
    finish: Callable  # (local, client)                  -> upload, memory (or (): as it was), environment steps taken
    max_steps: int = 1
    steps_of: Callable | None = None  # (client, key) -> tau_i <= max_steps; None: max_steps for everyone
    batched: bool = (
        True  # False: even a batching engine takes clients one by one (loops whose length hangs on the data)
    )
    traced: bool = True  # False: `sample` runs simulators and cannot be compiled; everything else can,
    plain: bool = False  # but where this is True: then `estimate` and `apply` are plain Python too (torch, say)
    shared_env: bool = False  # True: clients meet in one world, and `sample` is of all of them at once:
    #                         (stack of local, stack of clients, scene, key) -> stack of seen, scene
    most_env_steps: int = 0  # that one local step can take, 0 if not known: an answer that claims more is a fault
    possible: Callable | None = None  # (upload, client) -> whether it can be true; None: whatever is finite
    moved: Callable | None = None  # (upload, or a stack of them) -> the part whose norm may be limited; None: all of it
    metrics: Callable = lambda local, client: {}  # (local, client) -> named scalars (float32) of its last local state,
    #                                               averaged over the cohort and logged as "train/…"


class Channel(NamedTuple):
    """A layer around the upload: acts on the client, undone on the server."""

    encode: Callable  # (upload, cohort, slot, key) -> wire
    decode: Callable  # (aggregate, cohort, key)    -> aggregate


class Exchange(NamedTuple):
    """One trip: server -> chosen clients -> server."""

    name: str  # "train", "report", "measure": also the address of its randomness
    choose: Callable  # (server, key)                    -> Cohort
    send: Callable  # (server, client_id)              -> message
    local: LocalUpdate
    combine: Callable  # (stack of uploads, cohort)       -> aggregate
    receive: Callable  # (server, aggregate, cohort, key) -> server, metrics
    channel: Channel
    mix: Callable | None = None  # (stack of directions, cohort) -> stack: what clients tell each other before each step
    report: Callable | None = None  # (stack of clients' metrics, cohort) -> metrics of the exchange; None: their means


class Policy(NamedTuple):
    """How parameters become actions. A *choice* is what is drawn and remembered, an *action* what the world is given.

    They differ where several choices mean the same action (padding to a power of two, clipping).
    """

    init: Callable  # (key)                     -> theta
    prepare: Callable  # (theta)                   -> what `sample` needs, computed once per roll-out
    noise: Callable  # (key, shape)              -> noise for `sample`, drawn in bulk
    sample: Callable  # (prepared, obs, noise)    -> choice
    action: Callable  # (choice)                  -> action
    log_probs: Callable  # (theta, obs, choice)   -> [..., k] log-probabilities of the k decisions that make up a choice
    entropy: Callable | None = None  # (theta, obs) -> [...] in closed form
    tsallis: Callable | None = None  # (theta, obs, q) -> [...] Tsallis entropy S_q in closed form, `entropy` at q = 1
    kl: Callable | None = None  # (theta, other, obs) -> [...] KL(theta || other) in closed form
    table: Callable | None = None  # (theta) -> [states, choices, k] log-probabilities, where observations are finite
    host: Callable | None = None  # (theta, obs [B], noise [B]) -> choice, action: `sample` for NumPy, many at a time;
    #                               noise None: the most likely choice
    mode: Callable | None = (
        None  # (theta, obs [...]) -> choice: the most likely one, the first of several (argmax, mean)
    )
    decisions: int = 1  # k
    hold: int = 1  # steps for which a roll-out uses one draw of noise before it takes the next
    actions: int = 0  # how many actions there are, where they are finite
    about: dict[str, Any] | None = None  # what a stranger must know to act with saved parameters, as JSON can hold it:
    #                                      "kind", and by kind "layers", "activation", "actions", …


BuildPolicy = Callable[[Any], Policy]  # (environment); a table wants finite observations and actions, a network any


class Algorithm(NamedTuple):
    init: Callable  # (key) -> server
    exchanges: tuple[Exchange, ...]  # in order; each may depend on what the last one changed
    answer: Callable  # (server) -> parameters to evaluate
    policy: Policy  # how those parameters act
    opening: tuple[Exchange, ...] = ()  # played once, before the first round
    memory: Callable = lambda client_id, key: ()  # (client_id, key) -> what a client starts with
    theta_of: Callable = lambda answer, client: answer  # the parameters this client acts with
    init_shared_state: Callable = (
        lambda env_params, key: ()
    )  # (world, key) -> the world clients meet in, as it is at the start
