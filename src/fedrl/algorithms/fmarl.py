"""Federated multi-agent RL (Xu et al. 2024): periodic averaging, variation-aware, with decay or with consensus.

Works with any learner on any federation; clients that share one environment (traffic) are the paper's own case.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys
from fedrl.aggregation.mean import mean
from fedrl.algorithms.federated import Project, check_combine, federated
from fedrl.algorithms.server_rules import mean_displacement
from fedrl.arguments import above, checked
from fedrl.channels.graphs import Graph, consensus
from fedrl.channels.plain import plain
from fedrl.core.round import weighted_means
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.learners.decay import COUNTS, Decay, constant, counted
from fedrl.learners.local_step_counts import StepCounts
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection, Selection
from fedrl.types import (
    Algorithm,
    BuildLearner,
    Channel,
    Client,
    Cohort,
    Combine,
    Learner,
    Metrics,
    StepsOf,
)


@checked
def fmarl(
    learner: BuildLearner,
    *,
    tau: int,
    pace: StepCounts | None = None,
    decay: Decay = constant,
    graph: Graph | None = None,
    epsilon: float = 0.1,
    interactions: int = 1,
    server_step: float = 1.0,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """Everyone makes tau local updates (tau_i with a `pace`), then the server averages them: Algorithm 1, Eqs. 5 and 11.

    Clients that finish no update in a period (tau_i = 0) upload nothing, and the mean is over the m others.

    `decay` weights the y-th update by D(y) (Eqs. 18, 19). With a `graph`, neighbours exchange directions before each step,
    `interactions` (E) times with step size `epsilon` (Algorithm 2, Eqs. 23 to 25); a client
    that has finished its tau_i updates contributes a zero direction but still applies the mixed one; `selection` must then
    be everyone. tau = 1 without the rest is FIRL.

    The log counts the work: "train/updates" (C2), "train/messages" between neighbours (W1, W2); uplinks (C1) are
    "train/answered".
    """
    if tau < 1 or interactions < 0:
        raise ValueError(f"fmarl needs tau >= 1 and interactions >= 0, got {tau} and {interactions}")
    rule = mean_displacement(server_step)
    check_combine(combine)
    above(
        0, "it is how much of its neighbours' directions an agent takes, below 1 / (their number + 1)", epsilon=epsilon
    )

    def build(federation: Federation) -> Algorithm:
        active_graph = graph if interactions else None
        if active_graph is not None and active_graph.agents != federation.count:
            raise ValueError(
                f"the graph has {active_graph.agents} agents and the federation {federation.count} clients; "
                "every client needs one place in the graph"
            )

        steps_of = pace(federation.count, tau) if pace else None
        finishes = _finishes(steps_of, federation.count)
        if active_graph is not None and not finishes.all():
            slow = np.flatnonzero(~finishes).tolist()
            raise ValueError(
                f"clients {slow} finish no update in a period of tau={tau}, and neighbours would wait for their directions; "
                "raise tau, or give a federation and a graph without them"
            )

        def with_step_counts(environment: Any) -> Learner:
            built = learner(environment)
            return built._replace(local=counted(built.local, decay)._replace(local_steps=tau, steps_of=steps_of))

        return federated(
            rule, with_step_counts, selection=_without(selection, finishes), combine=combine, channel=channel,
            project=project, mix=consensus(active_graph, epsilon, interactions) if active_graph else None,
            report=_counts(active_graph, interactions),
        )(federation)  # fmt: skip

    return build


def _finishes(steps_of: StepsOf | None, clients: int) -> np.ndarray:
    """Which clients make any local update in a period."""
    if steps_of is None:
        return np.ones(clients, bool)
    ids = jnp.arange(clients, dtype=jnp.int32)
    return np.asarray(jax.vmap(lambda i: steps_of(Client(i, (), (), ()), keys.of_seed(0)))(ids)) > 0


def _without(selection: BuildSelection, finishes: np.ndarray) -> BuildSelection:
    """`selection` less the clients that finish no update: the m <= N agents of Section IV-A."""
    if finishes.all():
        return selection
    counts = jnp.asarray(finishes)

    def build(federation: Federation, learner: Learner) -> Selection:
        inner = selection(federation, learner)

        def choose(server: Any, key: Key) -> Cohort:
            cohort = inner.choose(server, key)
            present = cohort.present & counts[cohort.ids]
            weight = jnp.where(present, cohort.weight, 0.0)
            total = jnp.sum(weight)
            return cohort._replace(present=present, weight=weight / jnp.where(total > 0.0, total, 1.0))

        return inner._replace(choose=choose)

    return build


def _counts(graph: Graph | None, interactions: int) -> Callable[[Metrics, Cohort], Metrics]:
    """Updates and messages of the whole cohort instead of the means of what each client counts."""

    def report(metrics: Metrics, cohort: Cohort) -> Metrics:
        learnt, applied = (jnp.where(cohort.present, metrics[name], 0.0) for name in COUNTS)
        messages = (
            jnp.asarray(graph.degrees, jnp.float32) * interactions * applied if graph else jnp.zeros_like(applied)
        )
        learner_metrics = {name: values for name, values in metrics.items() if name not in COUNTS}
        return weighted_means(learner_metrics, cohort) | {"updates": jnp.sum(learnt), "messages": jnp.sum(messages)}

    return report
