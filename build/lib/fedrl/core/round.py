"""One federated round: the file to read first.

    for each exchange:  choose a cohort -> each client works on its own -> admit what came back -> combine it
                        -> the server receives it

`play` is the only loop over exchanges; every engine runs it. An engine brings an `Executor`, which turns requests into
results, and says how the server's half is compiled. `client.py` has the steps of one client, `admission.py` decides whose
upload counts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.core.admission import Admitted, ExchangeResult, admit, ask, exhausted
from fedrl.core.client import barrier
from fedrl.faults import Faults
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Clients, Cohort, Exchange, Metrics, Server


class State(NamedTuple):
    """All that one seed of a run must remember between rounds; with the round number it determines what follows."""

    key: Key  # of the seed
    server: Server
    clients: Clients


class WorkRequest(NamedTuple):
    """What one seed's cohort is to do in an exchange. Clients that are not present are not asked."""

    seed: Key  # of the run; environments are drawn from it
    server: Server
    clients: Client  # a stack, in the order of the cohort
    cohort: Cohort
    key: Key  # of the exchange
    shared_state: Tree  # the environment that clients share, where they do


class Executor(Protocol):
    """An engine: does the clients' work of one exchange, for every seed that is played."""

    def __call__(self, exchange: Exchange, requests: Sequence[WorkRequest], /) -> Sequence[ExchangeResult]: ...


class ServerHalf(NamedTuple):
    """The server's side of one exchange, compiled as an engine likes it."""

    choose: Callable[[Server, dict[str, Array], Key], tuple[Cohort, Cohort]]  # -> who was drawn, who of them is asked
    rows: Callable[[Clients, Array], Client]  # the clients with these ids, as a stack
    receive: Callable[..., tuple[Server, Clients, Metrics]]  # `receive` below, of this exchange


class Player(NamedTuple):
    """What an engine plays rounds with."""

    halves: dict[str, ServerHalf]  # by exchange
    execute: Executor
    inspect: Callable[[list[Metrics]], None] = lambda metrics: None  # after every exchange; may raise


def play(
    exchanges: Sequence[Exchange], player: Player, states: list[State], *address: str | int | Array
) -> tuple[list[State], list[Metrics]]:
    """Play the exchanges one after the other, each for all seeds at once.

    `address` is where their randomness is below each seed's key: ("round", 3).
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
    drawn, requests = [], []
    for state in states:
        cohort, request = _request(exchange, half, state, keys.of(state.key, *address))
        drawn.append(cohort)
        requests.append(request)
    results = player.execute(exchange, requests)
    after, metrics = [], []
    for state, cohort, request, result in zip(states, drawn, requests, results, strict=True):
        server, clients, reported = half.receive(
            state.server, state.clients, cohort, request.cohort, result, request.key
        )
        after.append(State(state.key, server, clients))
        metrics.append(reported)
    player.inspect(metrics)
    return after, metrics


def _request(exchange: Exchange, half: ServerHalf, state: State, key: Key) -> tuple[Cohort, WorkRequest]:
    key = keys.of(key, exchange.name)
    drawn, cohort = half.choose(state.server, state.clients.faults, keys.of(key, "choose"))
    clients = half.rows(state.clients, cohort.ids)
    return drawn, WorkRequest(state.key, state.server, clients, cohort, key, state.clients.shared_state)


def server_half(
    exchange: Exchange,
    rows: Callable[[Clients, Array], Client],
    faults: Faults,
    compiled: Callable[[Callable], Callable] = lambda function: function,
) -> ServerHalf:
    """`rows(clients, ids)` takes clients out of a federation; `compiled` is `jax.jit` where each piece is a program."""

    def choose(server: Server, in_a_row: dict[str, Array], key: Key) -> tuple[Cohort, Cohort]:
        drawn = exchange.choose(server, key)
        return drawn, ask(faults, drawn, in_a_row)

    return ServerHalf(
        compiled(choose),
        compiled(lambda clients, ids: barrier(rows(clients, ids))),
        compiled(partial(receive, exchange, faults)),
    )


def receive(
    exchange: Exchange,
    faults: Faults,
    server: Server,
    clients: Clients,
    drawn: Cohort,
    asked: Cohort,
    result: ExchangeResult,
    key: Key,
) -> tuple[Server, Clients, Metrics]:
    """From what came back to the next server and clients."""
    none = jnp.zeros_like(next(iter(clients.faults.values())))
    admitted = admit(faults, exchange.local, drawn, asked, result, clients.faults.get(exchange.name, none))
    server, metrics = update_server(exchange, server, admitted.uploads, admitted.cohort, key)
    counts = {name: admitted.in_a_row if name == exchange.name else n for name, n in clients.faults.items()}
    after = clients.keeping(admitted.cohort, result.work.memory)
    after = after._replace(shared_state=result.shared_state, faults=counts)
    report = exchange.report or averaged
    metrics = report(result.work.metrics, admitted.cohort) | metrics | _counts(admitted)
    if faults.leaves_out:
        metrics["askable"] = jnp.sum(~exhausted(faults, clients.faults))
    return server, after, {f"{exchange.name}/{name}": value for name, value in metrics.items()}


def update_server(
    exchange: Exchange, server: Server, uploads: Tree, cohort: Cohort, key: Key
) -> tuple[Server, Metrics]:
    """From the stack of uploads to the next server."""
    server, uploads, cohort = barrier((server, uploads, cohort))
    aggregate = exchange.channel.decode(_combined(exchange, uploads, cohort), cohort, keys.of(key, "wire"))
    return barrier(exchange.receive(server, barrier(aggregate), cohort, keys.of(key, "receive")))


def _combined(exchange: Exchange, uploads: Tree, cohort: Cohort) -> Tree:
    """The aggregate; zeros if nobody is present.

    A branch, since XLA compiles one on its own: sums over clients, of leaves with a single number above all, would else be
    fused with what stands around them, which is not the same in every engine, and round differently on some processors.
    """
    shapes = jax.eval_shape(exchange.combine, uploads, cohort)
    return jax.lax.cond(
        jnp.any(cohort.present),
        lambda: jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), exchange.combine(uploads, cohort)),
        lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes),
    )


def averaged(metrics: Metrics, cohort: Cohort) -> Metrics:
    """What clients report, weighted as their uploads are. A number that is not finite counts as not reported."""

    def mean(values: Array) -> Array:
        reported = cohort.present & jnp.isfinite(values)
        weight = jnp.where(reported, cohort.weight, jnp.zeros_like(cohort.weight)).astype(values.dtype)
        total = jnp.sum(weight)
        summed = jnp.sum(jnp.where(reported, weight * values, jnp.zeros_like(values)))
        return jnp.where(total > 0, summed / jnp.where(total > 0, total, jnp.ones_like(total)), jnp.nan)

    return jax.lax.cond(  # a branch for the same reason as in `_combined`
        jnp.any(cohort.present),
        lambda: {name: mean(values) for name, values in metrics.items()},
        lambda: {name: jnp.full((), jnp.nan, values.dtype) for name, values in metrics.items()},
    )


def _counts(admitted: Admitted) -> Metrics:
    """Who answered, what it took, and who failed why."""
    cohort = admitted.cohort
    return {
        "answered": cohort.present.sum(),
        "env_steps": admitted.env_steps.sum(),
        "asked_ids": cohort.ids,
        "fault_codes": admitted.why,
    }
