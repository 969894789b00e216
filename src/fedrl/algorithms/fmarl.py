"""Federated multi-agent RL (Xu et al. 2024): periodic averaging, variation-aware, with decay, with talk between neighbours.

Works with any learner on any federation; clients that meet in one world (traffic) are the paper's own case.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.algorithms.fedavg import Method, fedavg
from fedrl.arguments import above, checked
from fedrl.federation import Federation
from fedrl.links.graphs import Graph, mixing
from fedrl.local.decay import Counted, Decay, constant, counted
from fedrl.local.learner import BuildLearner, Learner
from fedrl.local.paces import Pace
from fedrl.selection.participation import everyone
from fedrl.selection.selection import Selection
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Metrics


@checked
def fmarl(
    learner: BuildLearner,
    *,
    tau: int,
    pace: Pace | None = None,
    decay: Decay = constant,
    graph: Graph | None = None,
    epsilon: float = 0.1,
    interactions: int = 1,
    server_step: float = 1.0,
) -> Method:
    """Everyone makes tau local updates (tau_i with a `pace`), then the server averages them: Algorithm 1, Eqs. 5 and 11.

    `decay` weights the y-th update by D(y) (Eqs. 18, 19). With a `graph`, neighbours exchange directions before each step,
    `interactions` (E) times with step size `epsilon` (Algorithm 2, Eqs. 23 to 25); who has made its tau_i updates has none
    of its own to tell but moves with what it hears. tau = 1 without the rest is the paper's FIRL.

    The log counts what was done: "train/updates" (C2), "train/messages" between neighbours (W1, W2); uplinks (C1) are
    "train/answered".
    """
    if tau < 1 or interactions < 0:
        raise ValueError(f"fmarl wants tau >= 1 and interactions >= 0, got {tau} and {interactions}")
    above(0, "1 adds the mean displacement", server_step=server_step)
    above(
        0, "it is how much of its neighbours' directions an agent takes, below 1 / (their number + 1)", epsilon=epsilon
    )

    def build(federation: Federation) -> Algorithm:
        talk = graph if interactions else None
        if talk is not None and talk.agents != federation.count:
            raise ValueError(
                f"the graph has {talk.agents} agents and the federation {federation.count} clients; "
                "every client wants one place in the graph"
            )

        def paced(environment: Any) -> Learner:
            learns = learner(environment)
            steps_of = pace(federation.count, tau) if pace else None
            return learns._replace(local=counted(learns.local, decay)._replace(max_steps=tau, steps_of=steps_of))

        algorithm = fedavg(
            paced, server_step=server_step, selection=lambda where, learns: _counting(where, talk, interactions)
        )(federation)
        if talk is None:
            return algorithm
        hear = _hearing(talk, epsilon, interactions)
        *before, train = algorithm.exchanges
        return algorithm._replace(exchanges=(*before, train._replace(mix=hear)))

    return build


def _hearing(graph: Graph, epsilon: float, interactions: int) -> Callable[[Tree, Cohort], Tree]:
    """Stacked directions after E interactions, (I - epsilon La)^E applied at once (Eq. 23)."""
    matrix = mixing(graph, epsilon, interactions)

    def mix(directions: Tree, cohort: Cohort) -> Tree:
        return jax.tree.map(lambda x: jnp.tensordot(jnp.asarray(matrix, x.dtype), x, axes=1), directions)

    return mix


def _counting(federation: Federation, graph: Graph | None, interactions: int) -> Selection:
    """Everyone takes part; what each has done rides in its upload."""

    def rides(local: Counted, client: Client) -> tuple[Array, Array]:
        return local.learnt, local.applied

    def seen(cohort: Cohort, done: tuple[Array, Array]) -> Metrics:
        learnt, applied = (jnp.where(cohort.present, x, 0) for x in done)
        told = jnp.asarray(graph.degrees, jnp.int32) * interactions * applied if graph else jnp.zeros_like(applied)
        return {"updates": jnp.sum(learnt), "messages": jnp.sum(told)}

    return Selection(choose=everyone()(federation), rides=rides, seen=seen)
