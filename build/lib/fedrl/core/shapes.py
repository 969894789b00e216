"""The shapes of an exchange, found without acting: local steps keep the shapes they start with."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.core.admission import ExchangeResult
from fedrl.core.client import WorkResult, client_key, finish, message, start
from fedrl.core.round import ServerHalf, State, WorkRequest
from fedrl.keys import Key
from fedrl.trees import Tree, row
from fedrl.types import Algorithm, Client, Clients, Cohort, Exchange, Metrics, Server


def of_request(exchange: Exchange, algorithm: Algorithm, federation: "Enrols") -> WorkRequest:
    """Of what the first cohort would be asked."""

    def first(key: Key) -> WorkRequest:
        server, shared = algorithm.init(key), federation.shared()
        cohort = exchange.choose(server, key)
        clients = federation.enrol(shared, key, algorithm)
        rows = federation.rows(shared, clients, cohort.ids)
        return WorkRequest(key, server, rows, cohort, key, clients.shared_state)

    return jax.eval_shape(first, jax.random.key(0))


class Enrols(Protocol):
    """The part of a federation that says who its clients are."""

    def shared(self) -> Tree: ...

    def enrol(self, shared: Tree, key: Key, algorithm: Algorithm, /) -> Clients: ...

    def rows(self, shared: Tree, clients: Clients, ids: Array, /) -> Client: ...


def of_message(exchange: Exchange, request: WorkRequest) -> Tree:
    """Of what one client is sent."""
    return jax.eval_shape(lambda server, ids: exchange.send(server, ids[0]), request.server, request.cohort.ids)


def of_work(exchange: Exchange, request: WorkRequest) -> WorkResult:
    """Of what one client's work comes to. `request` may hold arrays or their shapes."""

    def idle(server: Server, clients: Client, cohort: Cohort, key: Key) -> WorkResult:
        client = row(clients, 0)
        own_key = client_key(key, client)
        local, _ = start(exchange.local, message(exchange, server, client), client, own_key)
        return finish(exchange, local, client, cohort, jnp.int32(0), key)

    return jax.eval_shape(idle, request.server, request.clients, request.cohort, request.key)


def of_aggregate(exchange: Exchange, request: WorkRequest) -> Tree:
    """Of what the server receives."""

    def combined(upload: Tree, cohort: Cohort, key: Key) -> Tree:
        stack = _stack(upload, cohort.ids.shape)
        return exchange.channel.decode(exchange.combine(stack, cohort), cohort, key)

    return jax.eval_shape(combined, of_work(exchange, request).upload, request.cohort, request.key)


def of_metrics(exchanges: Sequence[Exchange], halves: dict[str, ServerHalf], state: State) -> Metrics:
    """Of all that these exchanges report."""
    reports = [jax.eval_shape(partial(_report, exchange, halves[exchange.name]), state) for exchange in exchanges]
    return {name: shape for report in reports for name, shape in report.items()}


def _report(exchange: Exchange, half: ServerHalf, state: State) -> Metrics:
    """What the exchange would report if everybody sent zeros."""
    drawn, cohort = half.choose(state.server, state.clients.faults, state.key)
    clients = half.rows(state.clients, cohort.ids)
    shared_state = state.clients.shared_state
    request = WorkRequest(state.key, state.server, clients, cohort, state.key, shared_state)
    work = _stack(of_work(exchange, request), cohort.ids.shape)
    result = ExchangeResult(clients, work, shared_state, jnp.zeros(cohort.ids.shape, jnp.int32))
    return half.receive(state.server, state.clients, drawn, cohort, result, state.key)[2]


def _stack(one: Any, clients: tuple[int, ...]) -> Any:
    return jax.tree.map(lambda x: jnp.zeros((*clients, *x.shape), x.dtype), one)
