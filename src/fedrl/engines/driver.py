"""The loop that `one_at_a_time`, `processes`, `ray` and `flower` share: all of a run but where clients do their work.

The seeds of a run go from exchange to exchange together, so that workers without work in one seed have some in another.
"""

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


class Asked(NamedTuple):
    """What one seed's cohort is asked to do in an exchange."""

    seed: Key  # of the run; worlds are drawn from it
    server: Server
    rows: Client  # a stack, as the cohort
    cohort: Cohort
    key: Key  # of the exchange


Answer = tuple[Tree, Tree, Array]  # stacks of uploads, memories, environment steps, as the cohort


class Crew(NamedTuple):
    """Those who do the clients' work of one run."""

    perform: Callable[[Exchange, Sequence[Asked]], Sequence[Answer]]  # an answer for every seed
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

        def ask(exchange: Exchange, state: State, key: Key) -> Asked:
            key = keys.of(key, exchange.name)
            cohort = halves[exchange.name][0](state.server, keys.of(key, "choose"))
            return Asked(state.key, state.server, rows_of(state.clients, cohort.ids), cohort, key)

        def take(exchange: Exchange, state: State, asked: Asked, answer: Answer, scene: Tree) -> tuple[State, Metrics]:
            uploads, memory, env_steps = answer
            server, seen = halves[exchange.name][1](state.server, uploads, asked.cohort, asked.key)
            clients = state.clients.keeping(asked.cohort, memory)._replace(scene=scene)
            return State(state.key, server, clients), _named(exchange, seen, asked.cohort, env_steps)

        def exchange_all(exchange: Exchange, states: list[State], *at: Any) -> tuple[list[State], list[Metrics]]:
            """One exchange of every seed; its randomness is at the address `at` under the seed's key."""
            asked = [ask(exchange, state, keys.of(state.key, *at) if at else state.key) for state in states]
            scenes = [state.clients.scene for state in states]
            if exchange.name in in_step:
                meet = in_step[exchange.name]
                met = [meet(a.server, a.rows, scene, a.cohort, a.key) for a, scene in zip(asked, scenes, strict=True)]
                answers, scenes = [one[:3] for one in met], [one[3] for one in met]
            else:
                answers = list(crew.perform(exchange, asked))
            ends = [take(exchange, *one) for one in zip(states, asked, answers, scenes, strict=True)]
            return [state for state, _ in ends], [seen for _, seen in ends]

        def one_after_the_other(
            exchanges: tuple[Exchange, ...], states: list[State], *at: Any
        ) -> tuple[list[State], list[Metrics]]:
            metrics: list[Metrics] = [{} for _ in states]
            for exchange in exchanges:
                states, seen = exchange_all(exchange, states, *at)
                metrics = _joined(metrics, seen)
            return states, metrics

        def init(seeds: Sequence[int]) -> tuple[State, Metrics]:
            begun = [keys.of_seed(seed) for seed in seeds]
            states = [State(key, create(keys.of(key, "init")), enrol(key)) for key in begun]
            return _stacks(*one_after_the_other(algorithm.opening, states, "opening"))

        def one_round(states: list[State], number: int) -> tuple[list[State], list[Metrics]]:
            states, metrics = one_after_the_other(algorithm.exchanges, states, "round", number)
            due = (number + 1) % every == 0
            seen = exchange_all(measure, states)[1] if due else [unmeasured(state) for state in states]
            return states, _joined(metrics, seen)

        def advance(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
            states, seen = unstacked(state), []
            for number in range(first, first + rounds):
                states, metrics = one_round(states, number)
                seen.append(metrics)
            return _stacks(states, [stacked(list(of_one)) for of_one in zip(*seen, strict=True)])

        return Play(
            init=init,
            advance=advance,
            measure=lambda state: stacked(exchange_all(measure, unstacked(state))[1]),
            most=8,
            close=crew.close,
        )

    return build


def _joined(some: list[Metrics], more: list[Metrics]) -> list[Metrics]:
    return [one | other for one, other in zip(some, more, strict=True)]


def _stacks(states: list[State], metrics: list[Metrics]) -> tuple[State, Metrics]:
    return stacked(states), stacked(metrics)


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
