"""The plain engine: one client after the other, each a compiled function of its own. What the others must equal.

Slow and simple on purpose: it is the specification of the fast engines, and what a client alone on its machine does.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys, trees
from fedrl.engines.engine import Engine, Play, State, blank
from fedrl.federation import Clients, Federation
from fedrl.keys import Key
from fedrl.round import Heard, client_half, server_half
from fedrl.trees import Tree
from fedrl.types import Algorithm, Cohort, Exchange, Metrics, Server


def one_at_a_time() -> Engine:
    def build(algorithm: Algorithm, federation: Federation, measure: Exchange, every: int = 1) -> Play:
        shared = federation.shared()
        halves = {e.name: _compile(e) for e in (*algorithm.opening, *algorithm.exchanges, measure)}

        def exchange_once(exchange: Exchange, state: State, key: Key) -> tuple[State, Metrics]:
            choose, client_part, server_part = halves[exchange.name]
            key = keys.of(key, exchange.name)
            asked = choose(state.server, keys.of(key, "choose"))
            heard = _execute(federation, shared, client_part, state.server, state.clients, asked, key)
            server, seen = server_part(state.server, heard.uploads, heard.cohort, key)
            seen = seen | {"answered": heard.cohort.present.sum(), "env_steps": heard.env_steps.sum()}
            return State(state.key, server, heard.clients), {f"{exchange.name}/{k}": v for k, v in seen.items()}

        def begin(seed: int) -> tuple[State, Metrics]:
            key = keys.of_seed(seed)
            server = jax.jit(algorithm.init)(keys.of(key, "init"))
            state = State(key, server, jax.jit(lambda k: federation.enrol(shared, k, algorithm.memory))(key))
            metrics: Metrics = {}
            for exchange in algorithm.opening:
                state, seen = exchange_once(exchange, state, keys.of(key, "opening"))
                metrics |= seen
            return state, metrics

        def one_round(state: State, number: int) -> tuple[State, Metrics]:
            metrics: Metrics = {}
            for exchange in algorithm.exchanges:
                state, seen = exchange_once(exchange, state, keys.of(state.key, "round", number))
                metrics |= seen
            _, seen = exchange_once(measure, state, state.key)
            due = (number + 1) % every == 0
            return state, metrics | (seen if due else jax.tree.map(blank, seen))

        def init(seeds: Sequence[int]) -> tuple[State, Metrics]:
            return _stack([begin(seed) for seed in seeds])

        def advance(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
            ends = []
            for one in _unstack(state):
                rows = []
                for number in range(first, first + rounds):
                    one, seen = one_round(one, number)
                    rows.append(seen)
                ends.append((one, _stack(rows)))
            return _stack(ends)

        return Play(
            init=init,
            advance=advance,
            measure=lambda state: _stack([exchange_once(measure, one, one.key)[1] for one in _unstack(state)]),
            most=8,
        )

    return build


def _compile(exchange: Exchange) -> tuple[Any, Any, Any]:
    return (
        jax.jit(exchange.choose),
        jax.jit(lambda server, client, asked, slot, key: client_half(exchange, server, client, asked, slot, key)),
        jax.jit(lambda server, uploads, cohort, key: server_half(exchange, server, uploads, cohort, key)),
    )


def _execute(
    federation: Federation, shared: Tree, client_part: Any, server: Server, clients: Clients, asked: Cohort, key: Key
) -> Heard:
    answers = []
    for slot in range(asked.ids.shape[0]):
        row = federation.rows(shared, clients, asked.ids[slot : slot + 1])
        answers.append(client_part(server, trees.take(row, jnp.int32(0)), asked, jnp.int32(slot), key))
    uploads, memory, env_steps = _stack(answers)
    if jax.tree.leaves(clients.memory):
        clients = clients._replace(memory=trees.put(clients.memory, asked.ids, memory, asked.present))
    return Heard(uploads, asked, clients, env_steps)


def _stack(items: list) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *items)


def _unstack(stack: Tree) -> list:
    count = np.shape(jax.tree.leaves(stack)[0])[0]
    return [jax.tree.map(lambda x, i=i: x[i], stack) for i in range(count)]
