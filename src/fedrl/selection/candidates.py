"""The part that all selections among candidates share: the same d candidates in the same round of the same seed.

Candidates are drawn from a key that the server makes once, so methods are compared on the same draws.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.aggregation.mean import stack
from fedrl.arguments import checked_only
from fedrl.channels.plain import plain
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.selection.numbering import Names, secret
from fedrl.selection.participation import cohort, draw_subset
from fedrl.selection.selection import BuildSelection, Selection
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Learner, LocalUpdate, Metrics, Mode, Model

MOST_LISTED = 256  # clients: metrics of larger federations do not list them one by one, as in `records.rows`

# (theta, client, secret of the names) -> the candidate's report
Report = Callable[[Tree, Client, Names], Tree]
# (stack of reports, candidates) -> scores [d] (the highest are chosen), metrics
Scores = Callable[[Any, Cohort], tuple[Array, Metrics]]


class Draws(NamedTuple):
    """Draws from the server's key; ids are ascending."""

    candidates: Callable[[Key, Array], Cohort]  # (rng_key, round)
    best: Callable[[Key, Array, Cohort, Array], Array]  # (rng_key, round, candidates, scores [d]) -> ids [K]
    some: Callable[[Key, Array, Cohort], Array]  # (rng_key, round, candidates) -> ids [K], uniformly


class Chosen(NamedTuple):
    """The server's state in a two-phase selection."""

    rng_key: Key
    ids: Array  # [K] the clients that train in this round


def draws(federation: Federation, candidates: int, clients: int) -> Draws:
    """d candidates without replacement, each set equally likely; ties in scores are broken at random."""
    if not 1 <= clients <= candidates <= federation.count:
        raise ValueError(
            f"{clients} of {candidates} candidates of {federation.count} clients cannot be chosen; "
            "choose 1 <= clients <= candidates <= clients of the federation"
        )

    def ask(rng_key: Key, round: Array) -> Cohort:
        ids = draw_subset(keys.of(rng_key, "candidates", round), federation.count, candidates)
        return cohort(federation, jnp.sort(ids))

    def best(rng_key: Key, round: Array, asked: Cohort, scores: Array) -> Array:
        order = jax.random.permutation(keys.of(rng_key, "ties", round), candidates)
        top = jax.lax.top_k(jnp.where(asked.present, scores, -jnp.inf)[order], clients)[1]
        return jnp.sort(asked.ids[order[top]])

    def some(rng_key: Key, round: Array, asked: Cohort) -> Array:
        return jnp.sort(asked.ids[draw_subset(keys.of(rng_key, "some", round), candidates, clients)])

    return Draws(ask, best, some)


@checked_only
def uniform_of(candidates: int, clients: int) -> BuildSelection:
    """`clients` random ones of the candidates, without asking them for reports: FedAvg in the code of `xie2025`."""

    def build(federation: Federation, learner: Learner) -> Selection:
        draw = draws(federation, candidates, clients)

        def choose(server: Any, key: Key) -> Cohort:
            rng_key = server.selection
            return cohort(federation, draw.some(rng_key, server.round, draw.candidates(rng_key, server.round)))

        return Selection(choose, init=lambda key: key, metrics=chosen(federation))

    return build


def two_phase(
    candidates: int, clients: int, report: Callable[[Federation, Learner], Report], scores: Scores
) -> BuildSelection:
    """In every round the candidates send reports computed at the current theta; those with the highest scores then train.

    The broadcast holds a secret, new in every round, that keys the names in their reports (`numbering`).
    """

    def build(federation: Federation, learner: Learner) -> Selection:
        draw, report_of = draws(federation, candidates, clients), report(federation, learner)
        by_client = _by_client(federation)

        def receive(server: Any, reports: Tree, members: Cohort, key: Key) -> tuple[Any, Metrics]:
            rng_key = server.selection.rng_key
            value, other_metrics = scores(reports, members)
            ids = draw.best(rng_key, server.round, members, value)
            metrics = {"scores": by_client(members, value), "asked": by_client(members, jnp.ones_like(value))}
            return server._replace(selection=Chosen(rng_key, ids)), other_metrics | {
                k: v for k, v in metrics.items() if v.size
            }

        def send(server: Any, client_id: Array) -> Model:
            word = secret(keys.of(server.selection.rng_key, "names", server.round))
            return Model(server.theta, server.round, word)

        report_exchange = Exchange(
            name="report",
            choose=lambda server, key: draw.candidates(server.selection.rng_key, server.round),
            send=send,
            local=LocalUpdate(
                start=lambda message, client, key: report_of(message.theta, client, message.selection),
                sample=lambda local, client, key: (),
                estimate=lambda local, trajectory, client, key: ((), local),
                apply=lambda local, direction, client: local,
                finish=lambda local, client: (local, (), jnp.zeros((), jnp.int32)),
                local_steps=0,
                mode=Mode.COMPILED_IN_TURN,
            ),
            combine=stack,
            receive=receive,
            channel=plain,
        )
        return Selection(
            choose=lambda server, key: cohort(federation, server.selection.ids),
            init=lambda key: Chosen(key, jnp.arange(clients, dtype=jnp.int32)),
            before=(report_exchange,),
            metrics=chosen(federation),
        )

    return build


def chosen(federation: Federation) -> Callable[[Cohort, Tree], Metrics]:
    """Which clients trained, as zeros and ones [N] under "train/chosen"; empty if the federation is too large to list."""
    by_client = _by_client(federation)
    if federation.count > MOST_LISTED:
        return lambda members, reports: {}
    return lambda members, reports: {"chosen": by_client(members, members.present.astype(jnp.float32))}


def _by_client(federation: Federation) -> Callable[[Cohort, Array], Array]:
    """Values of a cohort at its clients' ids [N], zero elsewhere; empty if the federation is too large to list."""
    size = federation.count if federation.count <= MOST_LISTED else 0
    return lambda members, value: jnp.zeros((size,)).at[members.ids].set(value, mode="drop")
