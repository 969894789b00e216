"""Federated averaging of any local learner: FedAvg, and with a policy gradient PAvg (Jin et al. 2022)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.aggregation.mean import mean, stack
from fedrl.arguments import above, checked
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.ascent import steps_along
from fedrl.local.learner import BuildLearner, Learner, Pooling, Rule
from fedrl.local.reinforce import reinforce
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import EVERYONE, Participation, everyone
from fedrl.selection.selection import BuildSelection, Selection
from fedrl.trees import Tree
from fedrl.types import Algorithm, BuildPolicy, Channel, Client, Cohort, Exchange, LocalUpdate, Metrics, Policy

AROUND = (
    "this selection makes clients report on themselves, and their reports would go around the channel; leave `channel` out, "
    "or choose among clients that report nothing: participation=uniform(6) or selection=uniform_of(18, 6)"
)

Method = Callable[[Federation], Algorithm]  # what a user writes; `train` gives it the federation
Project = Callable[[Any, Policy], Callable[[Tree], Tree]]  # (environment, policy) -> theta -> theta


class Model(NamedTuple):
    theta: Tree
    round: Array  # how many have been played
    selection: Tree = ()  # what the server remembers of its clients in order to choose among them


@checked
def fedavg(
    learner: BuildLearner,
    *,
    participation: Participation = EVERYONE,
    selection: BuildSelection | None = None,
    server_step: float = 1.0,
    combine: Rule = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """Clients train locally from the common theta; the server adds `server_step` times the mean displacement.

    Who trains is drawn by `participation`, or decided by a `selection` that first looks at the clients (paper 004).
    Displacements go up through `channel` (clipped and noised, say) and are combined otherwise than by their mean where
    some clients are not to be trusted (`aggregation.median`). A selection whose clients report on themselves allows no
    channel but `plain`, since reports would go around it. `project` may confine the new parameters.
    """
    above(0, "1 adds the mean displacement", server_step=server_step)
    if selection and participation is not EVERYONE:
        raise ValueError(
            "fedavg got a selection and a participation, of which only one can say who trains; leave one out"
        )
    _check_rule(combine)

    def build(federation: Federation) -> Algorithm:
        environment = federation.environment
        learns = learner(environment)
        confine = project(environment, learns.policy) if project else None
        chooser = selection(federation, learns) if selection else Selection(choose=participation(federation))

        if chooser.reports and channel is not plain:
            raise ValueError(AROUND)

        def init(key: Key) -> Model:
            return Model(learns.init(key), jnp.zeros((), jnp.int32), chooser.init(keys.of(key, "selection")))

        def receive(server: Model, uploads: tuple[Tree, Tree], cohort: Cohort, key: Key) -> tuple[Model, Metrics]:
            aggregate, reports = uploads
            theta = learns.pooling.add(server.theta, aggregate, server_step)
            kept = chooser.file(server.selection, reports, cohort)
            norm = {"update_norm": trees.squared_norm(learns.pooling.displacement(aggregate)) ** 0.5}
            return Model(confine(theta) if confine else theta, server.round + 1, kept), norm | chooser.seen(
                cohort, reports
            )

        train = Exchange(
            name="train",
            choose=chooser.choose,
            send=lambda server, client_id: server._replace(selection=chooser.tells(server.selection)),
            local=_with_report(learns.local, chooser, learns.pooling),
            combine=lambda uploads, cohort: (
                learns.pooling.combine(uploads[0], cohort, combine),
                stack(uploads[1], cohort),
            ),
            receive=receive,
            channel=_beside_report(channel),
        )
        return Algorithm(
            init=init,
            exchanges=(*chooser.before, train),
            answer=lambda server: server.theta,
            policy=learns.policy,
            opening=warm_up(federation, learns, combine, channel),
            memory=learns.memory,
            theta_of=learns.acts_with,
            scene=learns.scene,
        )

    return build


def _check_rule(combine: Rule) -> None:
    """NumPy's functions take an axis where a rule takes the cohort."""
    package = (getattr(combine, "__module__", None) or "").split(".")[0]
    if package in ("numpy", "jax"):
        raise TypeError(
            f"fedavg(): combine wants a function (stack of uploads, cohort) -> aggregate, got {package}'s "
            f"{getattr(combine, '__name__', combine)}; give fedrl.aggregation.median.median, or leave it out for the mean"
        )


def _with_report(local: LocalUpdate, chooser: Selection, pooling: Pooling) -> LocalUpdate:
    """`local`, whose upload also carries what the selection wants to know of the client (one-phase methods)."""

    def finish(state: Any, client: Client) -> tuple[Tree, Tree, Array]:
        upload, memory, env_steps = local.finish(state, client)
        return (upload, chooser.rides(state, client._replace(memory=memory))), memory, env_steps

    return local._replace(finish=finish, moved=lambda upload: pooling.displacement(upload[0]))


def _beside_report(channel: Channel) -> Channel:
    """`channel` around the displacement; the report, which methods of selection read, goes as it is."""
    return Channel(
        encode=lambda upload, *rest: (channel.encode(upload[0], *rest), upload[1]),
        decode=lambda aggregate, *rest: (channel.decode(aggregate[0], *rest), aggregate[1]),
    )


def warm_up(
    federation: Federation, learner: Learner, combine: Rule = mean, channel: Channel = plain
) -> tuple[Exchange, ...]:
    """What every client does before the first round, to fill its memory and the common filters."""

    def receive(server: Model, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[Model, Metrics]:
        return server._replace(theta=learner.pooling.add(server.theta, aggregate, 1.0)), {}

    return tuple(
        Exchange(
            name=f"opening-{number}",
            choose=everyone()(federation),
            send=lambda server, client_id: server._replace(selection=()),
            local=local._replace(moved=learner.pooling.displacement),
            combine=lambda uploads, cohort: learner.pooling.combine(uploads, cohort, combine),
            receive=receive,
            channel=channel,
        )
        for number, local in enumerate(learner.opening)
    )


@checked
def pavg(
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int = 1,
    policy: BuildPolicy = softmax_table(),
    participation: Participation = EVERYONE,
    selection: BuildSelection | None = None,
    server_step: float = 1.0,
    combine: Rule = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """PAvg (Jin et al. 2022): FedAvg of policy gradients, the baseline of both papers."""
    direction = reinforce(horizon=horizon, batch=batch)
    return fedavg(
        steps_along(direction, eta=eta, local_steps=local_steps, policy=policy),
        participation=participation, selection=selection, server_step=server_step,
        combine=combine, channel=channel, project=project,
    )  # fmt: skip
