"""What a federated method needs to know of a local learner: its parameters, its local update, what a client keeps."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
from jax import Array

from fedrl import trees
from fedrl.trees import Tree
from fedrl.types.clients import Client, Cohort
from fedrl.types.exchange import (
    Combine,
    InitMemory,
    InitSharedState,
    ParametersOf,
    no_memory,
    no_shared_state,
    theta_itself,
)
from fedrl.types.local_update import LocalUpdate
from fedrl.types.policy import AnyPolicy, InitParameters
from fedrl.types.trajectory import Trajectory


class Model(NamedTuple):
    """What a learner is sent, unless the server's rule says more."""

    theta: Tree
    round: Array  # how many have been played
    selection: Tree = ()  # what a selection tells those who train, or report to it


class Pooling(NamedTuple):
    """How the uploads of a learner's clients become the next theta. `rule` is the algorithm's: mean, median, yours."""

    combine: Callable[[Tree, Cohort, Combine], Tree]  # (stack of uploads, cohort, rule) -> aggregate
    add: Callable[[Tree, Tree, float], Tree]  # (theta, aggregate, server step) -> theta
    displacement: Callable[[Tree], Tree]  # (aggregate, or theta) -> the part of it that moves parameters (or is moved)
    moving: Callable[[Tree, Tree], Tree] = lambda aggregate, displacement: displacement  # -> `aggregate` with another


def add_displacement(theta: Tree, displacement: Tree, step: float) -> Tree:
    """theta + step * displacement; theta itself where nothing was uploaded."""
    if not jax.tree.leaves(displacement):
        return theta
    return trees.add(theta, trees.scale(step, displacement))


displacements = Pooling(lambda uploads, cohort, rule: rule(uploads, cohort), add_displacement, lambda moved: moved)


class Recent(Protocol):
    """The trajectory a client remembers, as the networks see it (filtered)."""

    def __call__(self, theta: Tree, client: Client, /) -> Trajectory: ...


class LogPi(Protocol):
    """log pi(choice|obs), with observations as the networks see them."""

    def __call__(self, theta: Tree, obs: Any, choice: Any, /) -> Array: ...


class OfMemory(Protocol):
    """A number, or an array [B, T], computed at theta from what a client remembers."""

    def __call__(self, theta: Tree, client: Client, /) -> Array: ...


class Learner(NamedTuple):
    """A local learner. `recent`, `log_pi`, `advantages` and `loss` are for selections that look at clients first."""

    policy: AnyPolicy
    init: InitParameters  # theta: what is learnt jointly and travels
    local: LocalUpdate  # reads `theta` and `round` of its message (`Model`), uploads the displacement of theta
    memory: InitMemory = no_memory
    acts_with: ParametersOf = theta_itself
    recent: Recent | None = None  # where given, the broadcast is in `local.message`
    log_pi: LogPi | None = None
    advantages: OfMemory | None = None  # [B, T] of the choices it remembers, estimated at theta
    loss: OfMemory | None = None  # at theta; its gradient is the learner's
    opening: tuple[
        LocalUpdate, ...
    ] = ()  # played by every client once, before the first round; they move no parameters
    init_shared_state: InitSharedState = no_shared_state
    pooling: Pooling = displacements


BuildLearner = Callable[[Any], Learner]  # (environment)


def within(local: LocalUpdate, inside: Callable[[Client], Client]) -> LocalUpdate:
    """`local` as part of something that keeps more of a client: it sees the client that `inside` gives."""
    sample: Any = local.sample  # of one client or of all that share an environment
    return local._replace(
        start=lambda message, client, key: local.start(message, inside(client), key),
        sample=lambda state, client, *rest: sample(state, inside(client), *rest),
        estimate=lambda state, trajectory, client, key: local.estimate(state, trajectory, inside(client), key),
        apply=lambda state, direction, client: local.apply(state, direction, inside(client)),
        finish=lambda state, client: local.finish(state, inside(client)),
        metrics=lambda state, client: local.metrics(state, inside(client)),
    )
