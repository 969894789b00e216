"""The frame of every federated method: a server rule, a learner, a selection, a way to combine, a channel.

The only file in `algorithms/` that builds exchanges. The one in which clients learn is called "train"; wrappers of a
finished method (`channels.delays`, `llm.adapters`) find it by that name, with `Algorithm.training` and `with_training`.
"""

from collections.abc import Callable
from typing import Any

import jax
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
    displacements,
    stepwise,
)

AROUND = (
    "this selection makes clients report on themselves, and their reports would go around the channel; leave `channel` out, "
    "or choose among clients that report nothing: selection=uniform(6) or selection=uniform_of(18, 6)"
)

COUNTED = (
    "this learner uploads counts and moments of what its filters saw beside its parameters, and the channel {perturbs}, "
    'which would break the filters; keep them at each client with filters="own", or turn them off with '
    "filter_observations=False, filter_rewards=False"
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

    Uploads pass through `channel` (which may clip them or add noise, say) and are combined by `combine`, which need not be
    the mean if some clients cannot be trusted (`aggregation.median`). Both also apply to the rule's own exchanges, in the
    opening and before "train". A selection that needs reports allows no channel but `plain`, because reports would go
    around it. For the same reason, with another channel clients report no metrics but their numbers of steps.
    A channel that `perturbs` numbers is refused where filters are pooled, whose counts would travel through it.
    `project` may confine theta after each round; `mix` lets clients exchange directions before each local step; `report`
    turns the stack of clients' metrics into log entries, by default their means.
    """
    check_combine(combine)

    def build(federation: Federation) -> Algorithm:
        local_learner = learner(federation.environment)
        server_rule = rule(federation, local_learner)
        confine = project(federation.environment, stepwise(local_learner.policy)) if project else None
        chooser = selection(federation, local_learner)
        if chooser.reports and channel is not plain:
            raise ValueError(AROUND)
        if channel.perturbs and _pools_filters(local_learner):
            raise ValueError(COUNTED.format(perturbs=channel.perturbs))

        def init(key: Key) -> ServerState:
            theta, selection_state = local_learner.init(key), chooser.init(keys.of(key, "selection"))
            return ServerState(theta, jnp.zeros((), jnp.int32), selection_state, server_rule.init(theta, key))

        def trip(phase: Phase) -> Exchange:
            return _trip(
                phase, drawing(phase.clients, federation, local_learner), server_rule, local_learner, combine, channel
            )

        warm_up = (
            Phase(f"opening-{i}", local, _fill_memories(local_learner)) for i, local in enumerate(local_learner.opening)
        )
        train = _train(chooser, server_rule, local_learner, combine, channel, confine)._replace(mix=mix, report=report)
        return Algorithm(
            init=init,
            exchanges=(*map(trip, server_rule.before), *chooser.before, train),
            answer=server_rule.answer,
            policy=local_learner.policy,
            opening=(*map(trip, warm_up), *map(trip, server_rule.opening)),
            memory=local_learner.memory,
            theta_of=local_learner.acts_with,
            init_shared_state=local_learner.init_shared_state,
        )

    return build


def _train(
    chooser: Selection,
    server_rule: ServerRule,
    local_learner: Learner,
    combine: Combine,
    channel: Channel,
    confine: Callable[[Tree], Tree] | None,
) -> Exchange:
    message, tells = server_rule.message, chooser.tells  # all that the message needs of the two

    def receive(
        server: ServerState, uploads: tuple[Tree, Tree], cohort: Cohort, key: Key
    ) -> tuple[ServerState, Metrics]:
        aggregate, reports = uploads
        selection_state = chooser.record(server.selection, reports, cohort)
        state, metrics = server_rule.receive(server, aggregate, cohort, key)
        theta = confine(state.theta) if confine else state.theta
        next_state = state._replace(theta=theta, round=server.round + 1, selection=selection_state)
        return next_state, metrics | chooser.metrics(cohort, reports)

    return Exchange(
        name=TRAIN,
        choose=chooser.choose,
        send=lambda server, client_id: message(server._replace(selection=tells(server.selection))),
        local=_with_report(
            local_learner.local if channel is plain else _hide_metrics(local_learner.local),
            chooser,
            local_learner.pooling,
        ),
        combine=lambda uploads, cohort: (
            local_learner.pooling.combine(uploads[0], cohort, combine),
            stack(uploads[1], cohort),
        ),
        receive=receive,
        channel=_beside_report(channel),
    )


def _with_report(local: LocalUpdate, chooser: Selection, pooling: Pooling) -> LocalUpdate:
    """`local`, whose upload also carries the client's report to the selection (one-phase methods)."""

    def finish(state: Any, client: Client) -> tuple[Tree, Tree, Array]:
        upload, memory, env_steps = local.finish(state, client)
        return (upload, chooser.report(state, client._replace(memory=memory))), memory, env_steps

    return local._replace(finish=finish, moved=lambda upload: pooling.displacement(upload[0]))


def _pools_filters(learner: Learner) -> bool:
    """Whether theta, and so an upload, holds more than what moves."""
    if learner.pooling is displacements:
        return False
    theta = jax.eval_shape(learner.init, keys.of_seed(0))
    return len(jax.tree.leaves(theta)) > len(jax.tree.leaves(learner.pooling.displacement(theta)))


def _hide_metrics(local: LocalUpdate) -> LocalUpdate:
    """`local` without metrics that depend on the client's data, because metrics go around the channel."""

    def metrics(state: Any, client: Client) -> Metrics:
        return {name: value for name, value in local.metrics(state, client).items() if name in COUNTS}

    return local._replace(metrics=metrics)


def _beside_report(channel: Channel) -> Channel:
    """`channel` applied to the displacement; the report to the selection is sent as it is."""
    return Channel(
        encode=lambda upload, *rest: (channel.encode(upload[0], *rest), upload[1]),
        decode=lambda aggregate, *rest: (channel.decode(aggregate[0], *rest), aggregate[1]),
    )


def _trip(
    phase: Phase,
    choose: Choose,
    server_rule: ServerRule,
    local_learner: Learner,
    combine: Combine,
    channel: Channel,
) -> Exchange:
    """An exchange besides "train", in which the selection has no part."""
    message, pooling = server_rule.message, local_learner.pooling
    return Exchange(
        name=phase.name,
        choose=choose,
        send=lambda server, client_id: message(server._replace(selection=())),
        local=phase.local._replace(moved=pooling.displacement),
        combine=lambda uploads, cohort: pooling.combine(uploads, cohort, combine),
        receive=phase.receive,
        channel=channel,
    )


def _fill_memories(learner: Learner) -> Receive:
    """Receive the opening, which fills the clients' memories and the common filters and leaves the parameters unchanged."""
    add = adding(learner)

    def receive(server: ServerState, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
        return add(server, aggregate, cohort, key)[0], {}

    return receive


def check_combine(combine: Combine) -> None:
    """Refuse functions of NumPy or JAX, whose second argument is an axis instead of the cohort."""
    package = (getattr(combine, "__module__", None) or "").split(".")[0]
    if package in ("numpy", "jax"):
        raise TypeError(
            f"combine must be a function (stack of uploads, cohort) -> aggregate, got {package}'s "
            f"{getattr(combine, '__name__', combine)}; give fedrl.aggregation.median.median, or leave it out for the mean"
        )
