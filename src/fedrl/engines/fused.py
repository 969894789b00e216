"""The default engine: the whole federation is one compiled program, several rounds of many clients and seeds per call.

over="map" goes through clients and seeds one after the other and is exact: the same bits as a client on its own machine.
over="vmap" batches both and is the fast one; sums inside vectorised loops may round differently, so it is compared by
tolerance. Seeds are split into equal parts of at most `lanes` clients, one part per core, and large cohorts run `lanes`
clients at a time, so memory stays bounded.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys, trees
from fedrl.arguments import at_least, checked
from fedrl.core import shapes
from fedrl.core.admission import ExchangeResult
from fedrl.core.client import barrier, client_part
from fedrl.core.lock_step import CohortLoops, OfClient, OfCohort, lock_step, needs_lock_step
from fedrl.core.round import Player, State, WorkRequest, play, server_half
from fedrl.engines import cache
from fedrl.engines.engine import Engine, Play, placeholders, refuse_deadline
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Algorithm, Exchange, Metrics, Mode

CORES = os.cpu_count() or 1
MOST_ROUNDS = 64  # per call: few enough for a progress bar, many enough that the call costs nothing

Each = Callable[[Callable[[Any], Any], Any], Any]  # (function of a row, stack) -> stack
InParts = Callable[[Callable[..., Any]], Callable[..., Any]]

_take = jax.jit(trees.take)  # outside a compiled function, each leaf would be a program of its own


@checked
def fused(over: str = "map", *, lanes: int = 640) -> Engine:
    if over not in ("map", "vmap"):
        raise ValueError(f"over must be 'map' (exact) or 'vmap' (fast), got {over!r}")
    at_least(1, "so many client copies go at once", lanes=lanes)
    cache.enable()

    def build(
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int = 1,
        faults: Faults = STOP,
        /,
    ) -> Play:
        refuse_deadline("the fused program", faults)
        if not all(e.local.mode.compiled for e in (*algorithm.opening, *algorithm.exchanges, evaluation)):
            raise ValueError(
                "this federation's simulators cannot be compiled into one program; "
                "use engine=processes() (fedrl.engines.local_processes), or ray() for several machines"
            )
        cohort = max(shapes.cohort_size(e, algorithm) for e in (*algorithm.exchanges, evaluation))
        in_parts, each = _in_parts(max(1, lanes // cohort)), _each(over, lanes)
        program = _Program(algorithm, federation, evaluation, eval_every, faults, each)
        return _compile(program, federation.shared(), in_parts, each)._replace(
            kind="exact" if over == "map" else "vmap"
        )

    return build


def _compile(program: "_Program", shared: Tree, in_parts: InParts, each: Each) -> Play:
    """The program, compiled over a stack of seeds."""

    @in_parts
    def init(shared: Tree, seeds: Array) -> Any:
        return each(lambda seed: program.begin(shared, jax.random.key(seed)), seeds)

    @in_parts
    def advance(shared: Tree, states: State, first: Array, rounds: Array) -> Any:
        return each(lambda state: program.rounds(shared, state, first, rounds), states)

    @in_parts
    def evaluate(shared: Tree, states: State) -> Any:
        return each(lambda state: program.evaluate(program.player(shared), state), states)

    def advance_some(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
        state, metrics = advance(shared, state, jnp.int32(first), jnp.int32(rounds))
        return state, jax.tree.map(lambda x: np.asarray(x)[:, :rounds], metrics)

    return Play(
        init=lambda seeds: init(shared, jnp.asarray(seeds, jnp.uint32)),
        advance=advance_some,
        evaluate=lambda state: evaluate(shared, state),
        most=MOST_ROUNDS,
    )


class _Program:
    """One seed of a run, as functions that can be compiled. `shared` holds the arrays that all seeds share."""

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int,
        faults: Faults,
        each: Each,
    ):
        self.algorithm, self.federation, self.evaluation = algorithm, federation, evaluation
        self.eval_every, self.faults, self.each = eval_every, faults, each

    def player(self, shared: Tree) -> Player:
        rows = partial(self.federation.rows, shared)
        exchanges = (*self.algorithm.opening, *self.algorithm.exchanges, self.evaluation)
        halves = {exchange.name: server_half(exchange, rows, self.faults) for exchange in exchanges}
        return Player(halves, self._execute)

    def _execute(self, exchange: Exchange, requests: Sequence[WorkRequest], /) -> list[ExchangeResult]:
        (request,) = requests  # seeds are an axis outside this program
        if needs_lock_step(exchange):
            return [lock_step(exchange, _loops(self.each))(request)]
        _, server, clients, cohort, key, shared_state, _ = request
        each = self.each if exchange.local.mode is not Mode.COMPILED_IN_TURN else jax.lax.map
        slots = jnp.arange(cohort.ids.shape[0], dtype=jnp.int32)
        work = each(lambda row: client_part(exchange, server, row[0], cohort, row[1], key), (clients, slots))
        return [ExchangeResult(clients, work, shared_state, jnp.zeros_like(cohort.ids))]

    def begin(self, shared: Tree, key: Key) -> tuple[State, Metrics]:
        server = self.algorithm.init(keys.of(key, "init"))
        state = State(key, server, self.federation.enrol(shared, key, self.algorithm))
        (state,), (metrics,) = play(self.algorithm.opening, self.player(shared), [state], "opening")
        return state, metrics

    def evaluate(self, player: Player, state: State) -> Metrics:
        return play((self.evaluation,), player, [state])[1][0]

    def rounds(self, shared: Tree, state: State, first: Array, rounds: Array) -> tuple[State, Metrics]:
        """`rounds` rounds (an argument of the compiled program) and their metrics, one row per round."""
        player = self.player(shared)
        row = shapes.of_metrics((*self.algorithm.exchanges, self.evaluation), player.halves, state)
        log = jax.tree.map(lambda x: jnp.zeros((MOST_ROUNDS, *x.shape), x.dtype), row)

        def body(i: Array, carry: tuple[State, Metrics]) -> tuple[State, Metrics]:
            state, metrics = self._one_round(player, carry[0], first + i)
            return state, jax.tree.map(lambda x, y: x.at[i].set(y), carry[1], metrics)

        return cast(tuple[State, Metrics], jax.lax.fori_loop(0, rounds, body, (state, log)))

    def _one_round(self, player: Player, state: State, number: Array) -> tuple[State, Metrics]:
        (state,), (metrics,) = play(self.algorithm.exchanges, player, [state], "round", number)
        not_evaluated = placeholders(shapes.of_metrics((self.evaluation,), player.halves, state))
        due = (number + 1) % self.eval_every == 0
        evaluation_metrics = jax.lax.cond(due, lambda s: self.evaluate(player, s), lambda s: not_evaluated, state)
        return state, metrics | evaluation_metrics


def _loops(each: Each) -> CohortLoops:
    def each_client(function: OfClient) -> OfCohort:
        return lambda common, stack: each(lambda row: function(common, row), stack)

    def repeat(count: int, body: Callable[[Array, Any], Any], carry: Any) -> Any:
        return jax.lax.fori_loop(0, barrier(jnp.int32(count)), body, carry)  # a loop even if the count is one

    return CohortLoops(each_client, lambda function: function, repeat)


def _each(over: str, lanes: int) -> Each:
    """Apply a function to every row of a stack: one by one, or `lanes` at a time."""

    def each(function: Callable[[Any], Any], stack: Any) -> Any:
        if over == "map":
            return jax.lax.map(function, stack)
        count = jax.tree.leaves(stack)[0].shape[0]
        return jax.vmap(function)(stack) if count <= lanes else jax.lax.map(function, stack, batch_size=lanes)

    return each


def _in_parts(seeds_at_once: int) -> InParts:
    """Compile a function of (shared, stack of seeds, ...) and call it on equal parts of the stack, one per core at a time.

    Each part has a thread: programs dispatched from one thread run one after the other. The last part is padded with
    copies of the last seed, which are dropped afterwards, so that all parts share one program.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        program = jax.jit(function)

        def run_to_end(*args: Tree) -> Tree:
            return jax.block_until_ready(program(*args))

        def run(shared: Tree, stack: Tree, *rest: Array) -> Tree:
            count = jax.tree.leaves(stack)[0].shape[0]
            parts = max(-(-count // seeds_at_once), min(count, CORES))
            size = -(-count // parts)
            if size == count:
                return program(shared, stack, *rest)
            rows = [np.minimum(np.arange(i, i + size), count - 1) for i in range(0, count, size)]
            with ThreadPoolExecutor(CORES) as threads:
                results = list(threads.map(lambda part: run_to_end(shared, _take(stack, part), *rest), rows))
            return _first_rows(results, count)

        return run

    return decorate


@partial(jax.jit, static_argnames="count")
def _first_rows(parts: list[Tree], count: int) -> Tree:
    """The first rows of all parts together."""
    return jax.tree.map(lambda *x: jnp.concatenate(x)[:count], *parts)
