"""The default engine: the whole federation is one compiled program, several rounds of many clients and seeds per call.

over="map" goes through clients and seeds one after the other and is exact: the same bits as a client on its own machine.
over="vmap" batches both and is the fast one; sums inside vectorised loops may round differently, so it is compared by
tolerance. Either way at most `lanes` client copies are in flight, so memory stays bounded however many are asked for.
"""

import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.engines import cache
from fedrl.engines.engine import Engine, Play, State, blank
from fedrl.federation import Clients, Federation
from fedrl.keys import Key
from fedrl.round import Heard, client_half, play_exchange, play_round, seam
from fedrl.trees import Tree
from fedrl.types import Algorithm, Cohort, Exchange, Metrics, Server

MOST_ROUNDS = 64  # per call: often enough for a progress bar, seldom enough to forget the call


def fused(over: str = "map", *, lanes: int = 2048) -> Engine:
    if over not in ("map", "vmap"):
        raise ValueError(f"over must be 'map' (exact) or 'vmap' (fast), got {over!r}")
    cache.enable()

    def build(algorithm: Algorithm, federation: Federation, measure: Exchange, every: int = 1) -> Play:
        shared = federation.shared()
        cohort_size = max(_cohort_size(e, algorithm) for e in (*algorithm.exchanges, measure))
        over_seeds = _each(over, max(1, lanes // cohort_size))

        def execute_with(shared: Tree):
            return _execute(federation, shared, _each(over, lanes))

        def begin(shared: Tree, key: Key) -> tuple[State, Metrics]:
            server, clients = algorithm.init(keys.of(key, "init")), federation.enrol(shared, key, algorithm.memory)
            metrics: Metrics = {}
            for exchange in algorithm.opening:
                server, clients, seen = play_exchange(
                    exchange, execute_with(shared), server, clients, keys.of(key, "opening")
                )
                metrics |= seen
            return State(key, server, clients), metrics

        def observe(shared: Tree, state: State) -> Metrics:
            _, _, seen = play_exchange(measure, execute_with(shared), state.server, state.clients, state.key)
            return seen

        def block(shared: Tree, state: State, first: Array, rounds: Array) -> tuple[State, Metrics]:
            execute = execute_with(shared)

            def one_round(state: State, number: Array) -> tuple[State, Metrics]:
                key = keys.of(state.key, "round", number)
                server, clients, seen = play_round(algorithm, execute, state.server, state.clients, key)
                after = State(state.key, server, clients)
                skipped = jax.tree.map(blank, jax.eval_shape(lambda s: observe(shared, s), after))
                due = (number + 1) % every == 0
                return after, seen | jax.lax.cond(due, lambda s: observe(shared, s), lambda s: skipped, after)

            _, row = jax.eval_shape(one_round, state, first)
            log = jax.tree.map(lambda x: jnp.zeros((MOST_ROUNDS, *x.shape), x.dtype), row)

            def body(i: Array, carry: tuple[State, Metrics]) -> tuple[State, Metrics]:
                state, seen = one_round(carry[0], first + i)
                return state, jax.tree.map(lambda x, y: x.at[i].set(y), carry[1], seen)

            return jax.lax.fori_loop(0, rounds, body, (state, log))

        @jax.jit
        def init(shared: Tree, seeds: Array) -> tuple[State, Metrics]:
            return over_seeds(lambda seed: begin(shared, jax.random.key(seed)), seeds)

        @jax.jit
        def advance(shared: Tree, state: State, first: Array, rounds: Array) -> tuple[State, Metrics]:
            return over_seeds(lambda s: block(shared, s, first, rounds), state)

        @jax.jit
        def look(shared: Tree, state: State) -> Metrics:
            return over_seeds(lambda s: observe(shared, s), state)

        def play(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
            parts = _split(state, _cores(over, jax.tree.leaves(state)[0].shape[0]))
            done = [
                advance(shared, part, jnp.int32(first), jnp.int32(rounds)) for part in parts
            ]  # dispatched, not awaited
            state, metrics = done[0] if len(done) == 1 else jax.tree.map(lambda *x: jnp.concatenate(x), *done)
            return state, jax.tree.map(lambda x: x[:, :rounds], metrics)

        return Play(
            init=lambda seeds: init(shared, jnp.asarray(seeds, jnp.uint32)),
            advance=play,
            measure=lambda state: look(shared, state),
            most=MOST_ROUNDS,
        )

    return build


def _execute(federation: Federation, shared: Tree, each: Callable) -> Callable:
    """The engine's part of an exchange: from the cohort asked to the stack of uploads."""

    def execute(exchange: Exchange, server: Server, clients: Clients, asked: Cohort, key: Key) -> Heard:
        rows = seam(federation.rows(shared, clients, asked.ids))
        slots = jnp.arange(asked.ids.shape[0], dtype=jnp.int32)
        uploads, memory, env_steps = each(
            lambda row: client_half(exchange, server, row[0], asked, row[1], key), (rows, slots)
        )
        if jax.tree.leaves(clients.memory):
            clients = clients._replace(memory=trees.put(clients.memory, asked.ids, memory, asked.present))
        return Heard(uploads, asked, clients, env_steps)

    return execute


def _each(over: str, lanes: int) -> Callable:
    """Apply a function to every row of a stack: one by one, or `lanes` at a time."""

    def each(function: Callable, stack: Tree) -> Tree:
        if over == "map":
            return jax.lax.map(function, stack)
        count = jax.tree.leaves(stack)[0].shape[0]
        return jax.vmap(function)(stack) if count <= lanes else jax.lax.map(function, stack, batch_size=lanes)

    return each


def _cores(over: str, seeds: int) -> int:
    """Into how many equal parts to divide the seeds, so that each core has a program of its own to run."""
    return max(n for n in range(1, (os.cpu_count() or 1) + 1) if seeds % n == 0) if over == "vmap" else 1


def _split(stack: Tree, parts: int) -> list[Tree]:
    count = jax.tree.leaves(stack)[0].shape[0] // parts
    return [jax.tree.map(lambda x, i=i: x[i * count : (i + 1) * count], stack) for i in range(parts)]


def _cohort_size(exchange: Exchange, algorithm: Algorithm) -> int:
    server = jax.eval_shape(algorithm.init, jax.random.key(0))
    return jax.eval_shape(exchange.choose, server, jax.random.key(0)).ids.shape[0]
