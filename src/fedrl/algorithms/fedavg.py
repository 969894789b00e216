"""Federated averaging of any local learner: FedAvg, and with a policy gradient PAvg (Jin et al. 2022)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.aggregation.mean import mean, stack
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.ascent import steps_along
from fedrl.local.learner import BuildLearner, Learner
from fedrl.local.reinforce import reinforce
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import Participation, everyone
from fedrl.selection.selection import BuildSelection, Selection
from fedrl.trees import Tree
from fedrl.types import Algorithm, BuildPolicy, Channel, Client, Cohort, Exchange, LocalUpdate, Metrics, Policy

Method = Callable[[Federation], Algorithm]  # what a user writes; `train` gives it the federation


class Model(NamedTuple):
    theta: Tree
    round: Array  # how many have been played
    selection: Tree = ()  # what the server remembers of its clients in order to choose among them


def fedavg(
    learner: BuildLearner,
    *,
    participation: Participation = everyone(),
    selection: BuildSelection | None = None,
    server_step: float = 1.0,
    combine: Callable[[Tree, Cohort], Tree] = mean,
    channel: Channel = plain,
    project: Callable[[Any, Policy], Callable[[Tree], Tree]] | None = None,
) -> Method:
    """Clients train locally from the common theta; the server adds `server_step` times the mean displacement.

    Who trains is drawn by `participation`, or decided by a `selection` that first looks at the clients (paper 004).
    Displacements go up through `channel` (clipped and noised, say) and are combined otherwise than by their mean where
    some clients are not to be trusted (`aggregation.median`). `project` may confine the new parameters.
    """

    def build(federation: Federation) -> Algorithm:
        environment = federation.environment
        learns = learner(environment)
        confine = project(environment, learns.policy) if project else None
        chooser = selection(federation, learns) if selection else Selection(choose=participation(federation))

        def init(key: Key) -> Model:
            return Model(learns.init(key), jnp.zeros((), jnp.int32), chooser.init(keys.of(key, "selection")))

        def receive(server: Model, uploads: tuple[Tree, Tree], cohort: Cohort, key: Key) -> tuple[Model, Metrics]:
            displacement, reports = uploads
            theta = trees.add(server.theta, trees.scale(server_step, displacement))
            kept = chooser.file(server.selection, reports, cohort)
            norm = {"update_norm": trees.squared_norm(displacement) ** 0.5}
            return Model(confine(theta) if confine else theta, server.round + 1, kept), norm | chooser.seen(
                cohort, reports
            )

        train = Exchange(
            name="train",
            choose=chooser.choose,
            send=lambda server, client_id: server._replace(selection=()),
            local=_with_report(learns.local, chooser),
            combine=lambda uploads, cohort: (combine(uploads[0], cohort), stack(uploads[1], cohort)),
            receive=receive,
            channel=_beside_report(channel),
        )
        return Algorithm(
            init=init,
            exchanges=(*chooser.before, train),
            answer=lambda server: server.theta,
            policy=learns.policy,
            opening=warm_up(federation, learns),
            memory=learns.memory,
            theta_of=learns.acts_with,
            scene=learns.scene,
        )

    return build


def _with_report(local: LocalUpdate, chooser: Selection) -> LocalUpdate:
    """`local`, whose upload also carries what the selection wants to know of the client (one-phase methods)."""

    def finish(state: Any, client: Client) -> tuple[Tree, Tree, Array]:
        upload, memory, env_steps = local.finish(state, client)
        return (upload, chooser.rides(state, client._replace(memory=memory))), memory, env_steps

    return local._replace(finish=finish)


def _beside_report(channel: Channel) -> Channel:
    """`channel` around the displacement; the report, which methods of selection read, goes as it is."""
    return Channel(
        encode=lambda upload, *rest: (channel.encode(upload[0], *rest), upload[1]),
        decode=lambda aggregate, *rest: (channel.decode(aggregate[0], *rest), aggregate[1]),
    )


def warm_up(federation: Federation, learner: Learner) -> tuple[Exchange, ...]:
    """What every client does alone before the first round, to fill its memory."""
    return tuple(
        Exchange(
            name=f"opening-{number}",
            choose=everyone()(federation),
            send=lambda server, client_id: server._replace(selection=()),
            local=local,
            combine=stack,
            receive=lambda server, nothing, cohort, key: (server, {}),
            channel=plain,
        )
        for number, local in enumerate(learner.opening)
    )


def pavg(
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int = 1,
    policy: BuildPolicy = softmax_table(),
    **options,
) -> Method:
    """PAvg (Jin et al. 2022): FedAvg of policy gradients, the baseline of both papers."""
    direction = reinforce(horizon=horizon, batch=batch)
    return fedavg(steps_along(direction, eta=eta, local_steps=local_steps, policy=policy), **options)
