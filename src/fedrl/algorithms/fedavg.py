"""Federated averaging of any local direction: FedAvg, and with a policy gradient PAvg (Jin et al. 2022)."""

from collections.abc import Callable
from typing import NamedTuple

from jax import Array

from fedrl import trees
from fedrl.aggregation.mean import mean
from fedrl.environments.protocol import Environment
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.ascent import ascend
from fedrl.local.reinforce import Direction, reinforce
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import Participation, everyone
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Exchange, Metrics, Policy

Method = Callable[[Federation], Algorithm]  # what a user writes; `train` gives it the federation
BuildPolicy = Callable[[Environment], Policy]
BuildDirection = Callable[[Environment, Policy], Direction]


class Model(NamedTuple):
    theta: Tree


def fedavg(
    direction: BuildDirection,
    *,
    eta: float,
    local_steps: int,
    policy: BuildPolicy = softmax_table(),
    participation: Participation = everyone(),
    server_step: float = 1.0,
    project: Callable[[Environment, Policy], Callable[[Tree], Tree]] | None = None,
    steps_of: Callable[[Client, Key], Array] | None = None,
) -> Method:
    """Each client takes `local_steps` steps of size `eta`; the server adds `server_step` times the mean displacement.

    `project` may confine the new parameters; `steps_of` may give a client fewer local steps.
    """

    def build(federation: Federation) -> Algorithm:
        environment = federation.environment
        acting = policy(environment)
        confine = project(environment, acting) if project else None

        def receive(server: Model, displacement: Tree, cohort: Cohort, key: Key) -> tuple[Model, Metrics]:
            theta = trees.add(server.theta, trees.scale(server_step, displacement))
            return Model(confine(theta) if confine else theta), {"update_norm": trees.squared_norm(displacement) ** 0.5}

        train = Exchange(
            name="train",
            choose=participation(federation),
            send=lambda server, client_id: server,
            local=ascend(direction(environment, acting), eta=eta, local_steps=local_steps, steps_of=steps_of),
            combine=mean,
            receive=receive,
            channel=plain,
        )
        return Algorithm(
            init=lambda key: Model(acting.init(key)),
            exchanges=(train,),
            answer=lambda server: server.theta,
            policy=acting,
        )

    return build


def pavg(*, eta: float, local_steps: int, horizon: int, batch: int = 1, **options) -> Method:
    """PAvg (Jin et al. 2022): FedAvg of policy gradients, the baseline of both papers."""
    return fedavg(reinforce(horizon=horizon, batch=batch), eta=eta, local_steps=local_steps, **options)
