"""One federated round: the file to read first.

    for each exchange:  choose a cohort -> each client works on its own -> admit their results -> combine them
                        -> the server receives the aggregate

`play` is the only loop over exchanges; every engine runs it. An engine provides an `Executor`, which turns requests into
results, and says how the server's half is compiled. `client.py` has the steps of one client, `admission.py` decides which
uploads count.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.core.admission import Admission, ExchangeResult, admit, eligible, exhausted
from fedrl.core.client import barrier
from fedrl.faults import Faults
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Clients, Cohort, Exchange, Metrics, Server


class State(NamedTuple):
    """All that one seed of a run keeps between rounds; with the round number it determines the rest of the run."""

    key: Key  # of the seed
    server: Server
    clients: Clients


class WorkRequest(NamedTuple):
    """The input of an executor for one seed's part in an exchange. Only clients that are present work."""

    seed: Key  # the key of the seed; environments are drawn from it
    server: Server
    clients: Client  # a stack, in the order of the cohort
    cohort: Cohort
    key: Key  # of the exchange
    shared_state: Tree  # of the environment that clients share, if they share one
    address: tuple[
        str | int, ...
    ] = ()  # of `key` below the key of the seed: ("round", 3, "train"). Plain values, so ()
    #                                      inside a program that computes the round's number


class Executor(Protocol):
    """Does the clients' work in one exchange, one request per seed."""

    def __call__(self, exchange: Exchange, requests: Sequence[WorkRequest], /) -> Sequence[ExchangeResult]: ...


Compile = Callable[[Callable[..., Any]], Callable[..., Any]]  # `jax.jit`, or the identity inside a larger program
Rows = Callable[[Clients, Array], Client]  # the clients with these ids, as a stack


class ChooseCohort(Protocol):
    """The cohort that was chosen, and the same without clients that are no longer asked."""

    def __call__(self, server: Server, in_a_row: dict[str, Array], key: Key, /) -> tuple[Cohort, Cohort]: ...


class ReceiveResult(Protocol):
    """The next server and clients, and the metrics of the exchange."""

    def __call__(
        self, server: Server, clients: Clients, chosen: Cohort, cohort: Cohort, result: ExchangeResult, key: Key, /
    ) -> tuple[Server, Clients, Metrics]: ...


class ServerHalf(NamedTuple):
    """The server's side of one exchange, compiled as the engine needs it."""

    choose: ChooseCohort
    rows: Rows
    receive: ReceiveResult


def accept_all(metrics: list[Metrics]) -> None:
    pass


class Player(NamedTuple):
    """The functions with which an engine plays rounds."""

    halves: dict[str, ServerHalf]  # by exchange
    execute: Executor
    inspect: Callable[[list[Metrics]], None] = accept_all  # called after every exchange; may raise


def play(
    exchanges: Sequence[Exchange], player: Player, states: list[State], *address: str | int | Array
) -> tuple[list[State], list[Metrics]]:
    """Play the exchanges one after the other, each for all seeds at once.

    `address` locates their randomness below each seed's key: ("round", 3).
    """
    metrics: list[Metrics] = [{} for _ in states]
    for exchange in exchanges:
        states, reported = _play_exchange(exchange, player, states, address)
        metrics = [before | now for before, now in zip(metrics, reported, strict=True)]
    return states, metrics


def _play_exchange(
    exchange: Exchange, player: Player, states: list[State], address: tuple[str | int | Array, ...]
) -> tuple[list[State], list[Metrics]]:
    half = player.halves[exchange.name]
    cohorts, requests = make_requests(exchange, half, states, address)
    results = player.execute(exchange, requests)
    after, metrics = [], []
    for state, chosen, request, result in zip(states, cohorts, requests, results, strict=True):
        server, clients, exchange_metrics = half.receive(
            state.server, state.clients, chosen, request.cohort, result, request.key
        )
        after.append(State(state.key, server, clients))
        metrics.append(exchange_metrics)
    player.inspect(metrics)
    return after, metrics


def make_requests(
    exchange: Exchange, half: ServerHalf, states: Sequence[State], address: tuple[str | int | Array, ...]
) -> tuple[list[Cohort], list[WorkRequest]]:
    """For each seed, the cohort that was chosen and the request for the clients' work; `address` is that of `play`."""
    cohorts, requests = [], []
    for state in states:
        chosen, request = _request(exchange, half, state, (*address, exchange.name))
        cohorts.append(chosen)
        requests.append(request)
    return cohorts, requests


def _request(
    exchange: Exchange, half: ServerHalf, state: State, address: tuple[str | int | Array, ...]
) -> tuple[Cohort, WorkRequest]:
    key = keys.of(state.key, *address)
    chosen, cohort = half.choose(state.server, state.clients.faults, keys.of(key, "choose"))
    clients = half.rows(state.clients, cohort.ids)
    shared_state = state.clients.shared_state
    return chosen, WorkRequest(state.key, state.server, clients, cohort, key, shared_state, _plain(address))


def _plain(address: tuple[str | int | Array, ...]) -> tuple[str | int, ...]:
    """`address`, or () if a part of it is an array, as the round's number is inside a program of several rounds."""
    plain = tuple(part for part in address if isinstance(part, str | int))
    return plain if len(plain) == len(address) else ()


def server_half(
    exchange: Exchange,
    rows: Rows,
    faults: Faults,
    compile: Compile = lambda function: function,
) -> ServerHalf:
    """`rows` are the federation's; `compile` is `jax.jit` where each function is a program of its own."""

    def choose(server: Server, in_a_row: dict[str, Array], key: Key) -> tuple[Cohort, Cohort]:
        chosen = exchange.choose(server, key)
        return chosen, eligible(faults, chosen, in_a_row)

    return ServerHalf(
        compile(choose),
        compile(lambda clients, ids: barrier(rows(clients, ids))),
        compile(partial(receive, exchange, faults)),
    )


def receive(
    exchange: Exchange,
    faults: Faults,
    server: Server,
    clients: Clients,
    chosen: Cohort,
    cohort: Cohort,
    result: ExchangeResult,
    key: Key,
) -> tuple[Server, Clients, Metrics]:
    """From the clients' results to the next server and clients."""
    no_faults = jnp.zeros_like(next(iter(clients.faults.values())))
    admission = admit(faults, exchange.local, chosen, cohort, result, clients.faults.get(exchange.name, no_faults))
    server, metrics = update_server(exchange, server, admission.uploads, admission.cohort, key)
    counts = {name: admission.in_a_row if name == exchange.name else n for name, n in clients.faults.items()}
    after = clients.keeping(admission.cohort, result.work.memory)
    after = after._replace(shared_state=result.shared_state, faults=counts)
    report = exchange.report or weighted_means
    metrics = report(result.work.metrics, admission.cohort) | metrics | _counts(admission)
    if result.late is not None:
        metrics["stale"] = jnp.sum(admission.cohort.present & (admission.cohort.staleness > 0))
    if faults.leaves_out:
        metrics["askable"] = jnp.sum(~exhausted(faults, clients.faults))
    return server, after, {f"{exchange.name}/{name}": value for name, value in metrics.items()}


def update_server(
    exchange: Exchange, server: Server, uploads: Tree, cohort: Cohort, key: Key
) -> tuple[Server, Metrics]:
    """From the stack of uploads to the next server."""
    server, uploads, cohort = barrier((server, uploads, cohort))
    aggregate = exchange.channel.decode(_combine(exchange, uploads, cohort), cohort, keys.of(key, "wire"))
    return barrier(exchange.receive(server, barrier(aggregate), cohort, keys.of(key, "receive")))


def _combine(exchange: Exchange, uploads: Tree, cohort: Cohort) -> Tree:
    """The aggregate; zeros if nobody is present.

    A branch, because XLA compiles a branch on its own. Otherwise sums over clients, above all of scalar leaves, would be
    fused with the surrounding operations, which differ from engine to engine, and round differently on some processors.
    """
    shapes = jax.eval_shape(exchange.combine, uploads, cohort)
    return jax.lax.cond(
        jnp.any(cohort.present),
        lambda: jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), exchange.combine(uploads, cohort)),
        lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes),
    )


def weighted_means(metrics: Metrics, cohort: Cohort) -> Metrics:
    """The clients' metrics, weighted as their uploads are. A number that is not finite counts as not reported."""

    def mean(values: Array) -> Array:
        reported = cohort.present & jnp.isfinite(values)
        weight = jnp.where(reported, cohort.weight, jnp.zeros_like(cohort.weight)).astype(values.dtype)
        total = jnp.sum(weight)
        weighted_sum = jnp.sum(jnp.where(reported, weight * values, jnp.zeros_like(values)))
        return jnp.where(total > 0, weighted_sum / jnp.where(total > 0, total, jnp.ones_like(total)), jnp.nan)

    means = jax.lax.cond(  # a branch for the same reason as in `_combine`
        jnp.any(cohort.present),
        lambda: {name: mean(values) for name, values in metrics.items()},
        lambda: {name: jnp.full((), jnp.nan, values.dtype) for name, values in metrics.items()},
    )
    return cast(Metrics, means)


def _counts(admission: Admission) -> Metrics:
    """How many clients answered, the environment steps they took, and the faults of the others."""
    cohort = admission.cohort
    return {
        "answered": cohort.present.sum(),
        "env_steps": admission.env_steps.sum(),
        "asked_ids": cohort.ids,
        "fault_codes": admission.fault_codes,
    }
