"""The loop that `one_at_a_time`, `processes`, `ray` and `flower` share: all of a run but where clients do their work.

The seeds of a run go from exchange to exchange together, so that workers without work in one seed have some in another.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, lock_step
from fedrl.admission import Heard, ask
from fedrl.engines import client_work
from fedrl.engines.engine import Engine, Play, State, blank
from fedrl.engines.gathering import Answers, Asked, gather
from fedrl.engines.step_by_step import step_by_step
from fedrl.faults import STOP, Faults
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.records.left_out import check
from fedrl.round import take_in
from fedrl.trees import Tree, row, stacked, unstacked
from fedrl.types import Algorithm, Cohort, Exchange, Metrics, Server


class Crew(NamedTuple):
    """Those who do the clients' work of one run."""

    perform: Callable[[Exchange, Sequence[Asked]], Sequence[Answers]]  # the answers of every seed
    close: Callable[[], None] = lambda: None


Hire = Callable[[tuple[Exchange, ...], Faults], Crew]


def driven(hire: Hire) -> Engine:
    """The engine whose client work is done by the crew that `hire` finds for a run's exchanges."""

    def build(
        algorithm: Algorithm, federation: Federation, measure: Exchange, every: int = 1, faults: Faults = STOP
    ) -> Play:
        shared = federation.shared()
        exchanges = (*algorithm.opening, *algorithm.exchanges, measure)
        crew = hire(exchanges, faults)
        halves = {e.name: _compile(e, faults) for e in exchanges}
        in_step = {e.name: step_by_step(e, faults) for e in exchanges if lock_step.needed(e)}
        rows_of = jax.jit(lambda clients, ids: federation.rows(shared, clients, ids))
        create = jax.jit(algorithm.init)
        enrol = jax.jit(lambda key: federation.enrol(shared, key, algorithm))
        unmeasured = _unmeasured(measure, federation, shared, faults)
        likes: dict[str, Tree] = {}  # exchange -> shapes of one client's answer
        told: dict[tuple[str, int, int, int], str] = {}  # exchange, round, seed, client -> what was said of its fault
        where = {"seed": 0, "round": 0}  # the first seed, and the round that is played

        def explain(exchange: str, round: int, seed: int, client: int) -> str:
            return told.get((exchange, round, seed, client), "")

        def tell(exchange: str, seed: int, client: int, text: str) -> None:
            told[exchange, where["round"], seed, client] = text

        def choose(exchange: Exchange, state: State, key: Key) -> tuple[Cohort, Asked]:
            key = keys.of(key, exchange.name)
            chosen, cohort = halves[exchange.name][0](state.server, state.clients.faults, keys.of(key, "choose"))
            return chosen, Asked(state.key, state.server, rows_of(state.clients, cohort.ids), cohort, key)

        def like(exchange: Exchange, asked: Asked) -> Tree:
            if exchange.name not in likes:
                _, server, rows, cohort, key = asked
                likes[exchange.name] = client_work.shapes(exchange, server, row(rows, 0), cohort, cohort.ids[0], key)
            return likes[exchange.name]

        def answered(exchange: Exchange, states: list[State], asked: list[Asked]) -> list[Heard]:
            scenes = [state.clients.scene for state in states]
            if exchange.name in in_step:
                meet = in_step[exchange.name]
                came = enumerate(zip(asked, scenes, strict=True))
                return [meet(a, scene, partial(tell, exchange.name, seed)) for seed, (a, scene) in came]
            answers = enumerate(zip(asked, crew.perform(exchange, asked), scenes, strict=True))
            return [
                gather(exchange, a, answer, like(exchange, a), scene, faults, partial(tell, exchange.name, seed))
                for seed, (a, answer, scene) in answers
            ]

        def exchange_all(exchange: Exchange, states: list[State], *at: Any) -> tuple[list[State], list[Metrics]]:
            """One exchange of every seed; its randomness is at the address `at` under the seed's key."""
            chosen = [choose(exchange, state, keys.of(state.key, *at) if at else state.key) for state in states]
            heard = answered(exchange, states, [asked for _, asked in chosen])
            ends = []
            for state, (cohort, asked), came in zip(states, chosen, heard, strict=True):
                server, clients, seen = halves[exchange.name][1](
                    state.server, state.clients, cohort, asked.cohort, came, asked.key
                )
                ends.append((State(state.key, server, clients), seen))
            # at once, so that nobody works on in a round that must not count
            check(faults, where["round"], stacked([seen for _, seen in ends]), where["seed"], explain)
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
            where["seed"], where["round"] = seeds[0], 0
            begun = [keys.of_seed(seed) for seed in seeds]
            states = [State(key, create(keys.of(key, "init")), enrol(key)) for key in begun]
            return _stacks(*one_after_the_other(algorithm.opening, states, "opening"))

        def one_round(states: list[State], number: int) -> tuple[list[State], list[Metrics]]:
            where["round"] = number + 1
            states, metrics = one_after_the_other(algorithm.exchanges, states, "round", number)
            due = (number + 1) % every == 0
            seen = exchange_all(measure, states)[1] if due else [unmeasured(state) for state in states]
            return states, _joined(metrics, seen)

        def advance(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
            states, seen = unstacked(state), []
            told.clear()  # what was said in rounds before is in the log
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
            explain=explain,
        )

    return build


def _joined(some: list[Metrics], more: list[Metrics]) -> list[Metrics]:
    return [one | other for one, other in zip(some, more, strict=True)]


def _stacks(states: list[State], metrics: list[Metrics]) -> tuple[State, Metrics]:
    return stacked(states), stacked(metrics)


def _compile(exchange: Exchange, faults: Faults) -> tuple[Any, Any]:
    def choose(server: Server, in_a_row: dict[str, Array], key: Key) -> tuple[Cohort, Cohort]:
        chosen = exchange.choose(server, key)
        return chosen, ask(faults, chosen, in_a_row)

    return jax.jit(choose), jax.jit(partial(take_in, exchange, faults=faults))


def _unmeasured(measure: Exchange, federation: Federation, shared: Tree, faults: Faults) -> Callable[[State], Metrics]:
    """What stands in the log of a round that was not measured; nobody acts for it."""

    def observe(state: State) -> Metrics:
        asked = measure.choose(state.server, state.key)
        rows = federation.rows(shared, state.clients, asked.ids)
        one = client_work.shapes(measure, state.server, row(rows, 0), asked, asked.ids[0], state.key)
        uploads, memory, env_steps = jax.tree.map(lambda x: jnp.zeros((*asked.ids.shape, *x.shape), x.dtype), one)
        heard = Heard(rows, uploads, memory, env_steps, state.clients.scene, jnp.zeros_like(asked.ids))
        return take_in(measure, state.server, state.clients, asked, asked, heard, state.key, faults)[2]

    return lambda state: jax.tree.map(blank, jax.eval_shape(observe, state))
