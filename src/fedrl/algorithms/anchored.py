"""Averaging anchored by momentum: the common frame of Algorithms 1 and 2 of Wang et al. 2024, which differ in `estimate`."""

import math

import jax.numpy as jnp

from fedrl import trees
from fedrl.aggregation.mean import mean
from fedrl.algorithms.fedavg import Method
from fedrl.arguments import above, at_least
from fedrl.environments.protocol import Environment
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.ascent import BuildDirection, ascend, check_steps
from fedrl.local.reinforce import reinforce
from fedrl.local.svrpg import Anchor
from fedrl.selection.participation import Participation, everyone
from fedrl.trees import Tree
from fedrl.types import Algorithm, BuildPolicy, Cohort, Exchange, Metrics


def anchored(
    direction: BuildDirection,
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    server_step: float,
    first_batch: int,
    policy: BuildPolicy,
    participation: Participation,
) -> Method:
    """Clients take K steps along `direction`; the server keeps their mean direction u and moves by lambda u.

    `server_step` is lambda / (eta K): 1 adds the mean displacement, as FedAvg does. u_0 is the mean gradient of
    `first_batch` episodes per client at theta_0 (Theorem 6.4: `theorem_batch`), zero if 0.
    """
    above(0, "u is the displacement divided by eta: take a small step such as 0.1", eta=eta)
    check_steps(eta, local_steps)
    above(0, "1 adds the mean displacement", server_step=server_step)
    at_least(0, first_batch=first_batch)

    def build(federation: Federation) -> Algorithm:
        environment = federation.environment
        traced = isinstance(environment, Environment)
        acting = policy(environment)

        def receive(server: Anchor, displacement: Tree, cohort: Cohort, key: Key) -> tuple[Anchor, Metrics]:
            u = trees.scale(1.0 / (eta * local_steps), displacement)
            u = trees.where(jnp.any(cohort.present), u, server.u)  # nobody could be asked: nothing is known of it
            theta = trees.add(server.theta, trees.scale(server_step, displacement))
            return Anchor(theta, server.theta, u), {"update_norm": trees.squared_norm(displacement) ** 0.5}

        train = Exchange(
            name="train",
            choose=participation(federation),
            send=lambda server, client_id: server,
            local=ascend(direction(environment, acting), eta=eta, local_steps=local_steps, traced=traced),
            combine=mean,
            receive=receive,
            channel=plain,
        )

        def init(key: Key) -> Anchor:
            theta = acting.init(key)
            return Anchor(theta, theta, trees.zeros_like(theta))

        # One unit step along the mean of B gradients: the displacement everyone uploads is u_0.
        gradient = reinforce(horizon=horizon, batch=max(first_batch, 1))(environment, acting)
        first = train._replace(
            name="first",
            choose=everyone()(federation),
            local=ascend(gradient, eta=1.0, local_steps=1, traced=traced),
            receive=lambda server, u, cohort, key: (server._replace(u=u), {}),
        )
        return Algorithm(
            init=init,
            exchanges=(train,),
            answer=lambda server: server.theta,
            policy=acting,
            opening=(first,) if first_batch else (),
        )

    return build


def theorem_batch(*, local_steps: int, rounds: int, beta: float) -> int:
    """B = ceil(K / (R beta^2)), the episodes per client behind u_0 in Theorem 6.4."""
    return math.ceil(local_steps / (rounds * beta**2))


def check_beta(beta: float) -> None:
    if not 0.0 < beta <= 1.0:
        raise ValueError(f"beta must lie in (0, 1], got {beta}; 1 puts all weight on the fresh gradient")
