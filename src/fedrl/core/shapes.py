"""The shapes of messages and results of an exchange, found without rolling out: local steps do not change shapes."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.core.admission import ExchangeResult
from fedrl.core.client import WorkResult, client_key, finish, message, start
from fedrl.core.round import ServerHalf, State, WorkRequest
from fedrl.keys import Key
from fedrl.trees import Tree, row
from fedrl.types import Algorithm, Client, Clients, Cohort, Exchange, Metrics, Server


def of_request(exchange: Exchange, algorithm: Algorithm, federation: "HasClients") -> WorkRequest:
    """The request for the first cohort."""

    def first(key: Key) -> WorkRequest:
        server, shared = algorithm.init(key), federation.shared()
        cohort = exchange.choose(server, key)
        clients = federation.enrol(shared, key, algorithm)
        rows = federation.rows(shared, clients, cohort.ids)
        return WorkRequest(key, server, rows, cohort, key, clients.shared_state)

    return cast(WorkRequest, jax.eval_shape(first, jax.random.key(0)))


def cohort_size(exchange: Exchange, algorithm: Algorithm) -> int:
    """How many clients are chosen, absent ones included."""
    server = jax.eval_shape(algorithm.init, jax.random.key(0))
    return int(jax.eval_shape(exchange.choose, server, jax.random.key(0)).ids.shape[0])


class HasClients(Protocol):
    """The part of a federation that makes its clients."""

    def shared(self) -> Tree: ...

    def enrol(self, shared: Tree, key: Key, algorithm: Algorithm, /) -> Clients: ...

    def rows(self, shared: Tree, clients: Clients, ids: Array, /) -> Client: ...


def of_message(exchange: Exchange, request: WorkRequest) -> Tree:
    """The message to one client."""
    return jax.eval_shape(lambda server, ids: exchange.send(server, ids[0]), request.server, request.cohort.ids)


def of_work(exchange: Exchange, request: WorkRequest) -> WorkResult:
    """What one client returns. `request` may hold arrays or their shapes."""

    def no_steps(server: Server, clients: Client, cohort: Cohort, key: Key) -> WorkResult:
        client = row(clients, 0)
        own_key = client_key(key, client)
        local, _ = start(exchange.local, message(exchange, server, client), client, own_key)
        return finish(exchange, local, client, cohort, jnp.int32(0), key)

    shapes = jax.eval_shape(no_steps, request.server, request.clients, request.cohort, request.key)
    return cast(WorkResult, shapes)


def of_aggregate(exchange: Exchange, request: WorkRequest) -> Tree:
    """What the server receives."""

    def combine(upload: Tree, cohort: Cohort, key: Key) -> Tree:
        stack = _zeros(upload, cohort.ids.shape)
        return exchange.channel.decode(exchange.combine(stack, cohort), cohort, key)

    return jax.eval_shape(combine, of_work(exchange, request).upload, request.cohort, request.key)


def of_metrics(exchanges: Sequence[Exchange], halves: dict[str, ServerHalf], state: State) -> Metrics:
    """The metrics of these exchanges."""
    reports = [jax.eval_shape(partial(_report, exchange, halves[exchange.name]), state) for exchange in exchanges]
    return {name: shape for report in reports for name, shape in report.items()}


def _report(exchange: Exchange, half: ServerHalf, state: State) -> Metrics:
    """The metrics of the exchange if every client returned zeros."""
    chosen, cohort = half.choose(state.server, state.clients.faults, state.key)
    clients = half.rows(state.clients, cohort.ids)
    shared_state = state.clients.shared_state
    request = WorkRequest(state.key, state.server, clients, cohort, state.key, shared_state)
    work = _zeros(of_work(exchange, request), cohort.ids.shape)
    result = ExchangeResult(clients, work, shared_state, jnp.zeros(cohort.ids.shape, jnp.int32))
    return half.receive(state.server, state.clients, chosen, cohort, result, state.key)[2]


def _zeros(one: Any, clients: tuple[int, ...]) -> Any:
    """A stack of zeros: rows like `one`."""
    return jax.tree.map(lambda x: jnp.zeros((*clients, *x.shape), x.dtype), one)
