"""The default engine: the whole federation is one compiled program, several rounds of many clients and seeds per call.

over="map" goes through clients and seeds one after the other and is exact: the same bits as a client on its own machine.
over="vmap" batches both and is the fast one; sums inside vectorised loops may round differently, so it is compared by
tolerance. Seeds go in equal parts of at most `lanes` client copies, a part a core, and large cohorts `lanes` at a time,
so memory stays bounded however many are asked for.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys, lock_step, trees
from fedrl.admission import Heard
from fedrl.arguments import at_least, checked
from fedrl.engines import cache
from fedrl.engines.engine import Engine, Play, State, blank, refuse_deadline
from fedrl.faults import STOP, Faults
from fedrl.federation import Clients, Federation
from fedrl.keys import Key
from fedrl.lock_step import Lifted
from fedrl.round import client_half, play_exchange, play_round, seam
from fedrl.trees import Tree
from fedrl.types import Algorithm, Cohort, Exchange, Metrics, Server

CORES = os.cpu_count() or 1
MOST_ROUNDS = 64  # per call: often enough for a progress bar, seldom enough to forget the call


@checked
def fused(over: str = "map", *, lanes: int = 640) -> Engine:
    if over not in ("map", "vmap"):
        raise ValueError(f"over must be 'map' (exact) or 'vmap' (fast), got {over!r}")
    at_least(1, "so many client copies go at once", lanes=lanes)
    cache.enable()

    def build(
        algorithm: Algorithm, federation: Federation, measure: Exchange, every: int = 1, faults: Faults = STOP
    ) -> Play:
        refuse_deadline("the fused program", faults)
        if not all(e.local.traced for e in (*algorithm.opening, *algorithm.exchanges, measure)):
            raise ValueError(
                "this federation's simulators cannot be compiled into one program; "
                "use engine=processes() (fedrl.engines.processes), or ray() for several machines"
            )
        shared = federation.shared()
        cohort_size = max(_cohort_size(e, algorithm) for e in (*algorithm.exchanges, measure))
        in_parts, over_seeds = _in_parts(max(1, lanes // cohort_size)), _each(over, lanes)

        def execute_with(shared: Tree):
            return _execute(federation, shared, _each(over, lanes), _each("map", lanes))

        def begin(shared: Tree, key: Key) -> tuple[State, Metrics]:
            server, clients = algorithm.init(keys.of(key, "init")), federation.enrol(shared, key, algorithm)
            metrics: Metrics = {}
            for exchange in algorithm.opening:
                server, clients, seen = play_exchange(
                    exchange, execute_with(shared), server, clients, keys.of(key, "opening"), faults
                )
                metrics |= seen
            return State(key, server, clients), metrics

        def observe(shared: Tree, state: State) -> Metrics:
            _, _, seen = play_exchange(measure, execute_with(shared), state.server, state.clients, state.key, faults)
            return seen

        def block(shared: Tree, state: State, first: Array, rounds: Array) -> tuple[State, Metrics]:
            execute = execute_with(shared)

            def one_round(state: State, number: Array) -> tuple[State, Metrics]:
                key = keys.of(state.key, "round", number)
                server, clients, seen = play_round(algorithm, execute, state.server, state.clients, key, faults)
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

        @in_parts
        def init(shared: Tree, seeds: Array) -> tuple[State, Metrics]:
            return over_seeds(lambda seed: begin(shared, jax.random.key(seed)), seeds)

        @in_parts
        def advance(shared: Tree, state: State, first: Array, rounds: Array) -> tuple[State, Metrics]:
            return over_seeds(lambda s: block(shared, s, first, rounds), state)

        @in_parts
        def look(shared: Tree, state: State) -> Metrics:
            return over_seeds(lambda s: observe(shared, s), state)

        def play(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
            state, metrics = advance(shared, state, jnp.int32(first), jnp.int32(rounds))
            return state, jax.tree.map(lambda x: x[:, :rounds], metrics)

        return Play(
            init=lambda seeds: init(shared, jnp.asarray(seeds, jnp.uint32)),
            advance=play,
            measure=lambda state: look(shared, state),
            most=MOST_ROUNDS,
            kind="exact" if over == "map" else "vmap",
        )

    return build


def _execute(federation: Federation, shared: Tree, together: Callable, in_turn: Callable) -> Callable:
    """The engine's part of an exchange: from the cohort asked to the stack of uploads."""

    def execute(exchange: Exchange, server: Server, clients: Clients, asked: Cohort, key: Key) -> Heard:
        rows = seam(federation.rows(shared, clients, asked.ids))
        if lock_step.needed(exchange):
            return lock_step.lock_step(exchange, _lifted(together))(server, rows, clients.scene, asked, key)
        slots = jnp.arange(asked.ids.shape[0], dtype=jnp.int32)
        each = together if exchange.local.batched else in_turn
        uploads, memory, env_steps = each(
            lambda row: client_half(exchange, server, row[0], asked, row[1], key), (rows, slots)
        )
        return Heard(rows, uploads, memory, env_steps, clients.scene, jnp.zeros_like(asked.ids))

    return execute


def _lifted(together: Callable) -> Lifted:
    def each(function: Callable) -> Callable:
        return lambda common, stack: together(lambda row: function(common, row), stack)

    def repeat(count: int, body: Callable, carry: Tree) -> Tree:
        return jax.lax.fori_loop(0, seam(jnp.int32(count)), body, carry)  # a loop also where the count is one

    return Lifted(each, lambda function: function, repeat)


def _each(over: str, lanes: int) -> Callable:
    """Apply a function to every row of a stack: one by one, or `lanes` at a time."""

    def each(function: Callable, stack: Tree) -> Tree:
        if over == "map":
            return jax.lax.map(function, stack)
        count = jax.tree.leaves(stack)[0].shape[0]
        return jax.vmap(function)(stack) if count <= lanes else jax.lax.map(function, stack, batch_size=lanes)

    return each


def _in_parts(seeds_at_once: int) -> Callable:
    """Compile a function of (shared, stack of seeds, ...) and call it on equal parts of the stack, one a core at a time.

    Each part has a thread: programs dispatched from one thread run one after the other. The last part is filled up with
    copies of the last seed, which are dropped again, so that all parts share one program.
    """

    def decorate(function: Callable) -> Callable:
        program = jax.jit(function)

        def finished(*args: Tree) -> Tree:
            return jax.block_until_ready(program(*args))

        def run(shared: Tree, stack: Tree, *rest: Array) -> Tree:
            count = jax.tree.leaves(stack)[0].shape[0]
            parts = max(-(-count // seeds_at_once), min(count, CORES))
            size = -(-count // parts)
            if size == count:
                return program(shared, stack, *rest)
            rows = [np.minimum(np.arange(i, i + size), count - 1) for i in range(0, count, size)]
            with ThreadPoolExecutor(CORES) as threads:
                done = list(threads.map(lambda part: finished(shared, trees.take(stack, part), *rest), rows))
            return jax.tree.map(lambda *x: jnp.concatenate(x)[:count], *done)

        return run

    return decorate


def _cohort_size(exchange: Exchange, algorithm: Algorithm) -> int:
    server = jax.eval_shape(algorithm.init, jax.random.key(0))
    return jax.eval_shape(exchange.choose, server, jax.random.key(0)).ids.shape[0]
