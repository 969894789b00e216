"""The server's side of a method as a value: its state, its message, its update and its answer.

`federated` combines a rule with a learner, a selection, a combine rule and a channel. The rules here do not depend on how
clients learn; those of wang2024 (`momentum_anchor.py`) and of policy iteration (`fapi.py`) are with their methods.
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
    selection: Tree = ()  # the state of the selection
    kept: Tree = ()  # the rule's own state, besides theta


Receive = Callable[[ServerState, Tree, Cohort, Key], tuple[ServerState, Metrics]]  # (server, aggregate, cohort, key)


class Phase(NamedTuple):
    """An exchange of the rule besides "train": same message, channel and combine rule, no reports."""

    name: str
    local: LocalUpdate
    receive: Receive
    clients: BuildSelection = everyone()


def _send_theta(server: ServerState) -> Model:
    return Model(server.theta, server.round, server.selection)


class ServerRule(NamedTuple):
    """`receive` updates theta and `kept`; `federated` updates the round and the selection's state."""

    receive: Receive
    init: Callable[[Tree, Key], Tree] = lambda theta, key: ()  # (theta_0, key) -> `kept`
    message: Callable[[ServerState], Any] = _send_theta  # here `selection` already is what it announces
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
    of filters, are added as usual. If nobody answers, neither theta nor the optimiser's state changes.
    """

    def build(federation: Federation, learner: Learner) -> ServerRule:
        pooling = learner.pooling

        def receive(server: ServerState, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
            displacement, theta = pooling.displacement(aggregate), pooling.displacement(server.theta)
            update, kept = optimizer.update(trees.scale(-1.0, displacement), server.kept, theta)
            answered = jnp.any(cohort.present)
            update = trees.where(answered, update, trees.zeros_like(update))
            theta = pooling.add(server.theta, pooling.moving(aggregate, update), 1.0)
            server = server._replace(theta=theta, kept=trees.where(answered, kept, server.kept))
            return server, update_norm(displacement)

        return ServerRule(receive, init=lambda theta, key: optimizer.init(pooling.displacement(theta)))

    return build


def no_server(federation: Federation, learner: Learner) -> ServerRule:
    """A server with no state, no message and no answer."""
    return ServerRule(
        receive=lambda server, aggregate, cohort, key: (server, {}),
        message=lambda server: (),
        answer=lambda server: (),
    )


def update_norm(displacement: Tree) -> Metrics:
    return {"update_norm": trees.squared_norm(displacement) ** 0.5}
