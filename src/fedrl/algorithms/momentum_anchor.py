"""Averaging anchored by momentum: the common frame of Algorithms 1 and 2 of Wang et al. 2024, which differ in `estimate`."""

import math
from typing import NamedTuple

import jax.numpy as jnp

from fedrl import trees
from fedrl.algorithms.federated import Project, federated
from fedrl.algorithms.server_rules import BuildRule, Phase, ServerRule, ServerState, update_norm
from fedrl.arguments import above, at_least
from fedrl.environments.protocol import Environment
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.learners.gradient_steps import BuildDirection, gradient_learner, gradient_update
from fedrl.learners.optimizers import Schedule
from fedrl.learners.reinforce import reinforce
from fedrl.learners.safeguards import step_factor
from fedrl.learners.svrpg import Anchor
from fedrl.selection.selection import BuildSelection
from fedrl.trees import Tree
from fedrl.types import BuildPolicy, Channel, Cohort, Combine, Learner, Metrics, stepwise


class Momentum(NamedTuple):
    theta_prev: Tree  # theta_{r-1}, which the server keeps beside theta_r
    u: Tree  # the mean direction of the last round


def anchored(
    direction: BuildDirection,
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    server_step: float,
    first_batch: int,
    policy: BuildPolicy,
    remember: int,
    selection: BuildSelection,
    combine: Combine,
    channel: Channel,
    project: Project | None,
    decay: Schedule | None = None,
) -> Method:
    """Clients take K steps along `direction`; the server keeps their mean direction u and moves by lambda u.

    `server_step` is lambda / (eta K): 1 adds the mean displacement, as FedAvg does. u_0 is the mean gradient of
    `first_batch` episodes per client at theta_0 (Theorem 6.4: `theorem_batch`), zero if 0. Clients keep their last
    `remember` local steps for selections that evaluate clients before choosing them (`gradient_learner`). With `decay`, eta
    is eta_0 decay(r) in round r: `direction` must have the same one, and lambda falls alike.
    """
    above(0, "u is the displacement divided by eta: take a small step such as 0.1", eta=eta)
    above(0, "1 adds the mean displacement", server_step=server_step)
    at_least(0, first_batch=first_batch)
    return federated(
        momentum_anchor(eta, local_steps, horizon, server_step, first_batch, decay),
        gradient_learner(direction, eta=eta, local_steps=local_steps, policy=policy, remember=remember),
        selection=selection, combine=combine, channel=channel, project=project,
    )  # fmt: skip


def momentum_anchor(
    eta: float, local_steps: int, horizon: int, server_step: float, first_batch: int, decay: Schedule | None = None
) -> BuildRule:
    """The server of both algorithms, for any learner that takes `local_steps` steps of size `eta`."""

    def build(federation: Federation, learner: Learner) -> ServerRule:
        environment, pooling = federation.environment, learner.pooling

        def receive(server: ServerState, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
            displacement = pooling.displacement(aggregate)
            u = trees.scale(1.0 / (eta * local_steps), displacement)
            if decay is not None:
                u = trees.scale(1.0 / step_factor(decay, server.round), u)
            u = trees.where(jnp.any(cohort.present), u, server.kept.u)  # if nobody answered, u keeps its value
            theta = pooling.add(server.theta, aggregate, server_step)
            return server._replace(theta=theta, kept=Momentum(server.theta, u)), update_norm(displacement)

        # One unit step along the mean of B gradients: the displacement everyone uploads is u_0.
        gradient = reinforce(horizon=horizon, batch=max(first_batch, 1))(environment, stepwise(learner.policy))
        first = Phase(
            "first",
            gradient_update(gradient, eta=1.0, local_steps=1, compiled=isinstance(environment, Environment)),
            lambda server, u, cohort, key: (server._replace(kept=server.kept._replace(u=u)), {}),
        )
        return ServerRule(
            receive,
            init=lambda theta, key: Momentum(theta, trees.zeros_like(pooling.displacement(theta))),
            message=lambda server: Anchor(
                server.theta,
                server.kept.theta_prev,
                server.kept.u,
                server.selection,
                () if decay is None else server.round,
            ),
            opening=(first,) if first_batch else (),
        )

    return build


def theorem_batch(*, local_steps: int, rounds: int, beta: float) -> int:
    """B = ceil(K / (R beta^2)), the episodes per client behind u_0 in Theorem 6.4."""
    return math.ceil(local_steps / (rounds * beta**2))


def check_beta(beta: float) -> float:
    """`beta` itself, or an error if it is out of range."""
    if not 0.0 < beta <= 1.0:
        raise ValueError(f"beta must lie in (0, 1], got {beta}; 1 puts all weight on the fresh gradient")
    return beta
