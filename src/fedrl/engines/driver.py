"""The code that `one_at_a_time`, `processes`, `ray` and `flower` share: everything in a run except the clients' work.

All seeds of a run play an exchange together, so that workers without work in one seed find some in another.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import jax

from fedrl import keys
from fedrl.core import shapes
from fedrl.core.admission import ExchangeResult
from fedrl.core.round import Executor, Player, State, WorkRequest, make_requests, play, server_half
from fedrl.engines.absences import check_quorum
from fedrl.engines.engine import Engine, Play, do_nothing, placeholders
from fedrl.engines.fault_log import FaultLog, ReportFault
from fedrl.engines.lock_step_executor import lock_step_executors
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation
from fedrl.trees import stacked, unstacked
from fedrl.types import Algorithm, Exchange, Metrics

MOST_ROUNDS = 8  # per call


class LookAhead(Protocol):
    """Called before the evaluation of a round, with the first exchange of the next round and its requests.

    The same requests come again when that exchange is executed, unless the run ends before: on a slow wire, both can be
    sent in one trip.
    """

    def __call__(self, exchange: Exchange, requests: Sequence[WorkRequest], /) -> None: ...


class ClientExecutor(NamedTuple):
    """Does the clients' work of one run."""

    execute: Executor
    close: Callable[[], None] = do_nothing
    look_ahead: LookAhead | None = None


class MakeExecutor(Protocol):
    """The executor of a run with these exchanges."""

    def __call__(
        self, exchanges: tuple[Exchange, ...], faults: Faults, report_fault: ReportFault, /
    ) -> ClientExecutor: ...


def engine_of(make_executor: MakeExecutor) -> Engine:
    """The engine whose clients' work is done by an executor."""

    def build(
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int = 1,
        faults: Faults = STOP,
        /,
    ) -> Play:
        run = _Run(algorithm, federation, evaluation, eval_every, faults, make_executor)
        return Play(
            init=run.init,
            advance=run.advance,
            evaluate=run.evaluate,
            most=MOST_ROUNDS,
            close=run.executor.close,
            explain=run.fault_log.explain,
        )

    return build


class _Run:
    """One run: the server's halves of its exchanges, each compiled on its own, and the executor of its clients' work."""

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int,
        faults: Faults,
        make_executor: MakeExecutor,
    ):
        self.algorithm, self.evaluation, self.eval_every, self.faults = algorithm, evaluation, eval_every, faults
        exchanges = (*algorithm.opening, *algorithm.exchanges, evaluation)
        shared = federation.shared()
        self.fault_log = FaultLog()
        self.executor = make_executor(exchanges, faults, self.fault_log.report)
        self.lock_step_executors = lock_step_executors(exchanges, faults, self.fault_log.report)
        rows = partial(federation.rows, shared)
        halves = {exchange.name: server_half(exchange, rows, faults, jax.jit) for exchange in exchanges}
        self.player = Player(halves, self._execute, self._inspect)
        self.not_evaluated: Metrics | None = None  # the metrics of a round without evaluation
        self.last_evaluation: tuple[State, Metrics] | None = None
        self.create = jax.jit(algorithm.init)
        self.enrol = jax.jit(lambda key: federation.enrol(shared, key, algorithm))

    def _execute(self, exchange: Exchange, requests: Sequence[WorkRequest], /) -> Sequence[ExchangeResult]:
        return self.lock_step_executors.get(exchange.name, self.executor.execute)(exchange, requests)

    def _inspect(self, metrics: list[Metrics]) -> None:
        """At once, so that no client works on in a round that must not count."""
        log = self.fault_log
        check_quorum(self.faults, log.round, stacked(metrics), log.first_seed, log.explain)

    def init(self, seeds: Sequence[int]) -> tuple[State, Metrics]:
        self.fault_log.first_seed, self.fault_log.round = seeds[0], 0
        seed_keys = [keys.of_seed(seed) for seed in seeds]
        states = [State(key, self.create(keys.of(key, "init")), self.enrol(key)) for key in seed_keys]
        states, metrics = play(self.algorithm.opening, self.player, states, "opening")
        return stacked(states), stacked(metrics)

    def advance(self, state: State, first: int, rounds: int) -> tuple[State, Metrics]:
        states, rows, evaluation_metrics, self.last_evaluation = unstacked(state), [], None, None
        self.fault_log.clear()  # reasons of earlier rounds are in the log
        self.fault_log.first_seed = keys.seed_of(states[0].key)  # a run that is resumed has no `init`
        for number in range(first, first + rounds):
            self.fault_log.round = number + 1
            states, metrics = play(self.algorithm.exchanges, self.player, states, "round", number)
            due = (number + 1) % self.eval_every == 0
            if due:
                self._look_ahead(states, number + 1)
            evaluation_metrics = self._evaluate(states) if due else None
            rest = evaluation_metrics or self._placeholders(states)
            rows.append([one | other for one, other in zip(metrics, rest, strict=True)])
        state = stacked(states)
        self.last_evaluation = (state, stacked(evaluation_metrics)) if evaluation_metrics else None
        return state, stacked([stacked(list(of_seed)) for of_seed in zip(*rows, strict=True)])

    def _look_ahead(self, states: list[State], next_round: int) -> None:
        first = self.algorithm.exchanges[0]
        if self.executor.look_ahead and first.name not in self.lock_step_executors:
            half = self.player.halves[first.name]
            self.executor.look_ahead(first, make_requests(first, half, states, ("round", next_round))[1])

    def _evaluate(self, states: list[State]) -> list[Metrics]:
        return play((self.evaluation,), self.player, states)[1]

    def _placeholders(self, states: list[State]) -> list[Metrics]:
        if self.not_evaluated is None:  # the same for all rounds and seeds, and tracing takes time
            shape = shapes.of_metrics((self.evaluation,), self.player.halves, states[0])
            self.not_evaluated = placeholders(shape)
        return [self.not_evaluated] * len(states)

    def evaluate(self, state: State) -> Metrics:
        """The keys of an evaluation are those of the run, so the same state has the same metrics: it is played once."""
        if not (self.last_evaluation and self.last_evaluation[0] is state):
            self.last_evaluation = state, stacked(self._evaluate(unstacked(state)))
        return self.last_evaluation[1]
