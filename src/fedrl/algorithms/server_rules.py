"""The server's side of a method as a value: what it keeps, what it says, how it moves, what it answers.

`federated` joins a rule with a learner, a selection, a way to combine and a channel. The rules here know nothing of how
clients learn; those of wang2024 (`momentum_anchor.py`) and of policy iteration (`fapi.py`) stand beside their methods.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jax import Array

from fedrl import trees
from fedrl.arguments import above, checked
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.trees import Tree
from fedrl.types import Cohort, Learner, LocalUpdate, Metrics, Model


class ServerState(NamedTuple):
    theta: Tree
    round: Array  # how many have been played
    selection: Tree = ()  # what the server remembers of its clients in order to choose among them
    kept: Tree = ()  # what the rule keeps beside theta


Receive = Callable[[ServerState, Tree, Cohort, Key], tuple[ServerState, Metrics]]  # (server, aggregate, cohort, key)


class Phase(NamedTuple):
    """A trip of a rule's own beside "train": the same message, channel and way to combine, and no reports."""

    name: str
    local: LocalUpdate
    receive: Receive
    clients: BuildSelection = everyone()


def _says_theta(server: ServerState) -> Model:
    return Model(server.theta, server.round, server.selection)


class ServerRule(NamedTuple):
    """`receive` moves theta and what is kept; the round and the selection's memory are the assembler's."""

    receive: Receive
    init: Callable[[Tree, Key], Tree] = lambda theta, key: ()  # (theta_0, key) -> what is kept beside theta
    message: Callable[[ServerState], Any] = _says_theta  # `selection` is what the selection tells by then
    answer: Callable[[ServerState], Tree] = lambda server: server.theta  # parameters to evaluate
    before: tuple[Phase, ...] = ()  # in every round, before "train"
    opening: tuple[Phase, ...] = ()  # once, before the first round


BuildRule = Callable[[Federation, Learner], ServerRule]


@checked
def mean_displacement(step: float = 1.0) -> BuildRule:
    """theta + `step` times the mean displacement. `step` = 1 is FedAvg (McMahan et al. 2017)."""
    above(0, "1 adds the mean displacement", server_step=step)
    return lambda federation, learner: ServerRule(adding(learner, step))


def adding(learner: Learner, step: float = 1.0) -> Receive:
    def receive(server: ServerState, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
        theta = learner.pooling.add(server.theta, aggregate, step)
        return server._replace(theta=theta), update_norm(learner.pooling.displacement(aggregate))

    return receive


@checked
def server_optimiser(optimizer: optax.GradientTransformation) -> BuildRule:
    """Adaptive federated optimisation (Reddi et al. 2021, Algorithm 2): minus the mean displacement is the gradient.

    `optax.sgd(1.0)` is FedAvg to the bit, `optax.sgd(1.0, momentum=0.9)` FedAvgM (Hsu et al. 2019), `optax.adam`,
    `optax.yogi` and `optax.adagrad` are FedAdam, FedYogi and FedAdagrad. Statistics that a learner pools, such as those
    of filters, are added as ever. If nobody answers, nothing moves and the optimiser's state stays as it was.
    """

    def build(federation: Federation, learner: Learner) -> ServerRule:
        pooling = learner.pooling

        def receive(server: ServerState, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
            moved, theta = pooling.displacement(aggregate), pooling.displacement(server.theta)
            update, kept = optimizer.update(trees.scale(-1.0, moved), server.kept, theta)
            answered = jnp.any(cohort.present)
            update = trees.where(answered, update, trees.zeros_like(update))
            theta = pooling.add(server.theta, pooling.moving(aggregate, update), 1.0)
            return server._replace(theta=theta, kept=trees.where(answered, kept, server.kept)), update_norm(moved)

        return ServerRule(receive, init=lambda theta, key: optimizer.init(pooling.displacement(theta)))

    return build


def no_server(federation: Federation, learner: Learner) -> ServerRule:
    """Keeps nothing, says nothing, answers nothing."""
    return ServerRule(
        receive=lambda server, nothing, cohort, key: (server, {}),
        message=lambda server: (),
        answer=lambda server: (),
    )


def update_norm(displacement: Tree) -> Metrics:
    return {"update_norm": trees.squared_norm(displacement) ** 0.5}
