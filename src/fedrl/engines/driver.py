"""The loop that `one_at_a_time`, `processes` and `ray` share: all of a run but where a cohort's clients do their work."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys, lock_step
from fedrl.engines import client_work
from fedrl.engines.engine import Engine, Play, State, blank
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.lock_step import Lifted
from fedrl.round import server_half
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Exchange, Metrics, Server


class Crew(NamedTuple):
    """Those who do the clients' work of one run."""

    # (exchange, server, stack of clients, cohort, key) -> stacks of uploads, memories, environment steps, as the cohort
    perform: Callable[[Exchange, Server, Client, Cohort, Key], tuple[Tree, Tree, Array]]
    close: Callable[[], None] = lambda: None


def driven(hire: Callable[[tuple[Exchange, ...]], Crew]) -> Engine:
    """The engine whose client work is done by the crew that `hire` finds for a run's exchanges."""

    def build(algorithm: Algorithm, federation: Federation, measure: Exchange, every: int = 1) -> Play:
        shared = federation.shared()
        exchanges = (*algorithm.opening, *algorithm.exchanges, measure)
        crew = hire(exchanges)
        halves = {e.name: _compile(e) for e in exchanges}
        in_step = {e.name: lock_step.lock_step(e, LIFTED) for e in exchanges if lock_step.needed(e)}
        rows_of = jax.jit(lambda clients, ids: federation.rows(shared, clients, ids))
        create = jax.jit(algorithm.init)
        enrol = jax.jit(lambda key: federation.enrol(shared, key, algorithm))
        unmeasured = _unmeasured(measure, federation, shared)

        def exchange_once(exchange: Exchange, state: State, key: Key) -> tuple[State, Metrics]:
            choose, server_part = halves[exchange.name]
            key = keys.of(key, exchange.name)
            asked = choose(state.server, keys.of(key, "choose"))
            rows = rows_of(state.clients, asked.ids)
            if exchange.name in in_step:
                uploads, memory, env_steps, scene = in_step[exchange.name](
                    state.server, rows, state.clients.scene, asked, key
                )
            else:
                uploads, memory, env_steps = crew.perform(exchange, state.server, rows, asked, key)
                scene = state.clients.scene
            server, seen = server_part(state.server, uploads, asked, key)
            clients = state.clients.keeping(asked, memory)._replace(scene=scene)
            return State(state.key, server, clients), _named(exchange, seen, asked, env_steps)

        def begin(seed: int) -> tuple[State, Metrics]:
            key = keys.of_seed(seed)
            state = State(key, create(keys.of(key, "init")), enrol(key))
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
            if (number + 1) % every == 0:
                return state, metrics | exchange_once(measure, state, state.key)[1]
            return state, metrics | unmeasured(state)

        def init(seeds: Sequence[int]) -> tuple[State, Metrics]:
            return stacked([begin(seed) for seed in seeds])

        def advance(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
            ends = []
            for one in unstacked(state):
                seen = []
                for number in range(first, first + rounds):
                    one, metrics = one_round(one, number)
                    seen.append(metrics)
                ends.append((one, stacked(seen)))
            return stacked(ends)

        return Play(
            init=init,
            advance=advance,
            measure=lambda state: stacked([exchange_once(measure, one, one.key)[1] for one in unstacked(state)]),
            most=8,
            close=crew.close,
        )

    return build


def stacked(items: list) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *items)


def unstacked(stack: Tree) -> list:
    count = np.shape(jax.tree.leaves(stack)[0])[0]
    return [row(stack, i) for i in range(count)]


def row(stack: Tree, i: int) -> Tree:
    return jax.tree.map(lambda x: x[i], stack)


def _each(function: Callable, traced: bool = True) -> Callable:
    if traced:
        return jax.jit(lambda common, stack: jax.lax.map(lambda row: function(common, row), stack))
    return lambda common, stack: stacked([function(common, item) for item in unstacked(stack)])


def _repeat(count: int, body: Callable, carry: Tree) -> Tree:
    for y in range(count):
        carry = body(jnp.int32(y), carry)
    return carry


LIFTED = Lifted(_each, jax.jit, _repeat)  # one client after the other, in this process: they wait for each other anyway


def _compile(exchange: Exchange) -> tuple[Any, Any]:
    return (
        jax.jit(exchange.choose),
        jax.jit(lambda server, uploads, cohort, key: server_half(exchange, server, uploads, cohort, key)),
    )


def _named(exchange: Exchange, seen: Metrics, cohort: Cohort, env_steps: Array) -> Metrics:
    seen = seen | {"answered": cohort.present.sum(), "env_steps": env_steps.sum()}
    return {f"{exchange.name}/{name}": value for name, value in seen.items()}


def _unmeasured(measure: Exchange, federation: Federation, shared: Tree) -> Callable[[State], Metrics]:
    """What stands in the log of a round that was not measured; nobody acts for it."""

    def observe(state: State) -> Metrics:
        asked = measure.choose(state.server, state.key)
        client = row(federation.rows(shared, state.clients, asked.ids), 0)
        one = client_work.shapes(measure, state.server, client, asked, asked.ids[0], state.key)
        uploads, _, env_steps = jax.tree.map(lambda x: jnp.zeros((*asked.ids.shape, *x.shape), x.dtype), one)
        _, seen = server_half(measure, state.server, uploads, asked, state.key)
        return _named(measure, seen, asked, env_steps)

    return lambda state: jax.tree.map(blank, jax.eval_shape(observe, state))
