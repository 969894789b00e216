"""The rounds of a run, played a few at a time: how many has no influence on the numbers."""

import time
from collections.abc import Iterator

import jax

from fedrl.core.round import State
from fedrl.engines.engine import Play
from fedrl.records.best import StopRule
from fedrl.records.checkpoint import Checkpoint
from fedrl.records.journal import Check, Journal
from fedrl.types import Metrics


def play_blocks(
    play: Play, journal: Journal, at: Checkpoint, rounds: int, eval_every: int, check: Check, stop_rule: StopRule
) -> Iterator[Checkpoint]:
    """Play the remaining rounds a few at a time, record them, and yield where the run is after each block.

    A block that fails is played again round by round, to keep the rounds before the one that failed.
    """
    one_by_one_until = 0
    state_of_each = journal.snapshot or journal.keep_best or stop_rule.given  # a block ends with each evaluation
    for count in _block_sizes(play.most):
        if at.round >= rounds or journal.best.ends(stop_rule):
            return
        to_evaluation = eval_every - at.round % eval_every if state_of_each else rounds
        count = 1 if at.round < one_by_one_until else min(count, rounds - at.round, to_evaluation)
        try:
            state, metrics, final = _play_block(play, at, count, rounds, eval_every, check)
        except Exception as error:
            if count == 1:
                error.add_note(f"in round {at.round + 1}")
                raise
            one_by_one_until = at.round + count
            continue
        at = journal.record(at.round, state, metrics, final)
        yield at


def _block_sizes(most: int) -> Iterator[int]:
    """How many rounds to play per call so that one takes about half a second. It has no influence on the numbers."""
    count, before = 1, time.monotonic()
    while True:
        yield count
        elapsed, before = time.monotonic() - before, time.monotonic()
        if elapsed < 0.3:
            count = min(2 * count, most)
        elif elapsed > 1.0:
            count = max(count // 2, 1)


def _play_block(
    play: Play, at: Checkpoint, count: int, rounds: int, eval_every: int, check: Check
) -> tuple[State, Metrics, Metrics]:
    """The next `count` rounds: state, metrics [seeds, rounds, ...], last evaluation. Raises if a round must not count."""
    state, metrics = jax.block_until_ready(play.advance(at.state, at.round, count))
    metrics = jax.device_get(metrics)
    for i in range(count):
        check(at.round + i + 1, {name: value[:, i] for name, value in metrics.items()})
    final = _last_evaluation(play, state, at.round + count, rounds, eval_every)
    check(at.round + count, final)
    return state, metrics, final


def _last_evaluation(play: Play, state: State, round: int, rounds: int, eval_every: int) -> Metrics:
    """The last round is always evaluated, also when it is not a multiple of `eval_every`."""
    if round != rounds or rounds % eval_every == 0:
        return {}
    metrics: Metrics = jax.device_get(play.evaluate(state))
    return metrics
