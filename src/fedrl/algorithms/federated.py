"""The frame of every federated method: a server rule, a learner, a selection, a way to combine, a channel.

The only file in `algorithms/` that builds exchanges. The one in which clients learn is called "train"; what works on a
finished method (`channels.delays`, `llm.adapters`) finds it by that name, with `Algorithm.training` and `with_training`.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.aggregation.mean import mean, stack
from fedrl.algorithms.server_rules import BuildRule, Phase, ServerRule, ServerState, adding
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.learners.decay import COUNTS
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection, Selection, drawing
from fedrl.trees import Tree
from fedrl.types import (
    TRAIN,
    Algorithm,
    BuildLearner,
    Channel,
    Choose,
    Client,
    Cohort,
    Combine,
    Exchange,
    Learner,
    LocalUpdate,
    Metrics,
    Mix,
    Policy,
    Pooling,
    Receive,
    ReportMetrics,
    stepwise,
)

AROUND = (
    "this selection makes clients report on themselves, and their reports would go around the channel; leave `channel` out, "
    "or choose among clients that report nothing: selection=uniform(6) or selection=uniform_of(18, 6)"
)

Project = Callable[[Any, Policy], Callable[[Tree], Tree]]  # (environment, policy) -> theta -> theta


@checked
def federated(
    rule: BuildRule,
    learner: BuildLearner,
    *,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
    mix: Mix | None = None,
    report: ReportMetrics | None = None,
) -> Method:
    """Clients that `selection` chooses learn from the server's message; the `rule` takes in what they upload.

    Uploads go up through `channel` (clipped and noised, say) and are combined otherwise than by their mean where some
    clients are not to be trusted (`aggregation.median`); so is all that the rule asks in openings and before "train". A
    selection whose clients report on themselves allows no channel but `plain`, since reports would go around it.
    For the same reason clients then report no metrics of theirs but how many steps they took.
    `project` may confine theta after each round; `mix` is what clients tell each other before each local step; `report`
    makes log entries of the stack of clients' metrics, by default their means.
    """
    check_combine(combine)

    def build(federation: Federation) -> Algorithm:
        learns = learner(federation.environment)
        serves = rule(federation, learns)
        confine = project(federation.environment, stepwise(learns.policy)) if project else None
        chooser = selection(federation, learns)
        if chooser.reports and channel is not plain:
            raise ValueError(AROUND)

        def init(key: Key) -> ServerState:
            theta, remembered = learns.init(key), chooser.init(keys.of(key, "selection"))
            return ServerState(theta, jnp.zeros((), jnp.int32), remembered, serves.init(theta, key))

        def trip(phase: Phase) -> Exchange:
            return _trip(phase, drawing(phase.clients, federation, learns), serves, learns, combine, channel)

        warm_up = (Phase(f"opening-{i}", local, _filling(learns)) for i, local in enumerate(learns.opening))
        train = _train(chooser, serves, learns, combine, channel, confine)._replace(mix=mix, report=report)
        return Algorithm(
            init=init,
            exchanges=(*map(trip, serves.before), *chooser.before, train),
            answer=serves.answer,
            policy=learns.policy,
            opening=(*map(trip, warm_up), *map(trip, serves.opening)),
            memory=learns.memory,
            theta_of=learns.acts_with,
            init_shared_state=learns.init_shared_state,
        )

    return build


def _train(
    chooser: Selection,
    serves: ServerRule,
    learns: Learner,
    combine: Combine,
    channel: Channel,
    confine: Callable[[Tree], Tree] | None,
) -> Exchange:
    message, tells = serves.message, chooser.tells  # all that clients need of the two

    def receive(
        server: ServerState, uploads: tuple[Tree, Tree], cohort: Cohort, key: Key
    ) -> tuple[ServerState, Metrics]:
        aggregate, reports = uploads
        remembered = chooser.record(server.selection, reports, cohort)
        moved, metrics = serves.receive(server, aggregate, cohort, key)
        theta = confine(moved.theta) if confine else moved.theta
        after = moved._replace(theta=theta, round=server.round + 1, selection=remembered)
        return after, metrics | chooser.metrics(cohort, reports)

    return Exchange(
        name=TRAIN,
        choose=chooser.choose,
        send=lambda server, client_id: message(server._replace(selection=tells(server.selection))),
        local=_with_report(learns.local if channel is plain else _discreet(learns.local), chooser, learns.pooling),
        combine=lambda uploads, cohort: (
            learns.pooling.combine(uploads[0], cohort, combine),
            stack(uploads[1], cohort),
        ),
        receive=receive,
        channel=_beside_report(channel),
    )


def _with_report(local: LocalUpdate, chooser: Selection, pooling: Pooling) -> LocalUpdate:
    """`local`, whose upload also carries what the selection wants to know of the client (one-phase methods)."""

    def finish(state: Any, client: Client) -> tuple[Tree, Tree, Array]:
        upload, memory, env_steps = local.finish(state, client)
        return (upload, chooser.report(state, client._replace(memory=memory))), memory, env_steps

    return local._replace(finish=finish, moved=lambda upload: pooling.displacement(upload[0]))


def _discreet(local: LocalUpdate) -> LocalUpdate:
    """`local`, whose metrics, which go around the channel, say nothing of what the client saw or learnt."""

    def metrics(state: Any, client: Client) -> Metrics:
        return {name: value for name, value in local.metrics(state, client).items() if name in COUNTS}

    return local._replace(metrics=metrics)


def _beside_report(channel: Channel) -> Channel:
    """`channel` around the displacement; the report, which methods of selection read, goes as it is."""
    return Channel(
        encode=lambda upload, *rest: (channel.encode(upload[0], *rest), upload[1]),
        decode=lambda aggregate, *rest: (channel.decode(aggregate[0], *rest), aggregate[1]),
    )


def _trip(
    phase: Phase,
    choose: Choose,
    serves: ServerRule,
    learns: Learner,
    combine: Combine,
    channel: Channel,
) -> Exchange:
    """An exchange beside "train"; the selection has no part in it."""
    message, pooling = serves.message, learns.pooling
    return Exchange(
        name=phase.name,
        choose=choose,
        send=lambda server, client_id: message(server._replace(selection=())),
        local=phase.local._replace(moved=pooling.displacement),
        combine=lambda uploads, cohort: pooling.combine(uploads, cohort, combine),
        receive=phase.receive,
        channel=channel,
    )


def _filling(learner: Learner) -> Receive:
    """What every client does before the first round fills its memory and the common filters; parameters stay."""
    add = adding(learner)

    def receive(server: ServerState, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
        return add(server, aggregate, cohort, key)[0], {}

    return receive


def check_combine(combine: Combine) -> None:
    """NumPy's functions take an axis where a rule takes the cohort."""
    package = (getattr(combine, "__module__", None) or "").split(".")[0]
    if package in ("numpy", "jax"):
        raise TypeError(
            f"combine must be a function (stack of uploads, cohort) -> aggregate, got {package}'s "
            f"{getattr(combine, '__name__', combine)}; give fedrl.aggregation.median.median, or leave it out for the mean"
        )
