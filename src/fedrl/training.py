"""Train: play rounds, log them, keep checkpoints. Killed at any instant and resumed, it ends with the same bytes."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import jax

from fedrl.arguments import at_least, checked
from fedrl.core.round import State
from fedrl.engines.absences import check_quorum
from fedrl.engines.engine import Engine, Play
from fedrl.engines.fused import fused
from fedrl.engines.processes import processes
from fedrl.environments.env_params import check_held
from fedrl.environments.protocol import Environment
from fedrl.evaluation import Evaluation, default_evaluation
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation, Method
from fedrl.finished_run import Run
from fedrl.records import folder as folders
from fedrl.records import identity, left_out, policy_file
from fedrl.records.checkpoint import Checkpoint
from fedrl.records.journal import Check, Journal
from fedrl.records.rows import Ledger, Row, RowCallback
from fedrl.trees import Tree
from fedrl.types import Algorithm, Metrics

Snapshot = Callable[[Algorithm, State], Tree]  # what to keep of a state, every leaf with a leading seed axis


@checked
def train(
    method: Method,
    federation: Federation,
    *,
    rounds: int,
    seed: int = 0,
    seeds: int = 1,
    out: str | Path | None = None,
    engine: Engine | None = None,
    evaluation: Evaluation | None = None,
    eval_every: int = 1,
    snapshot: Snapshot | None = None,
    callback: RowCallback | None = None,
    warn: Callable[[str], None] = print,
    checkpoint_seconds: float = 10.0,
    faults: Faults | None = None,
) -> Run:
    """Play `rounds` rounds for `seeds` seeds from `seed` on, measuring every `eval_every` rounds.

    With `out` the run leaves log, checkpoints and policy there, and goes on from what it finds there: a folder belongs to
    one run, which its `run.toml` describes, and to one process at a time. Without, it is only in memory.
    The default engine is the exact fused one, or `processes` where the environment cannot be compiled.
    What `snapshot` makes of the state at each measured round stays there too, in a file a round (`records/snapshots.py`).
    `callback` is called after every few rounds and for every measured one; without one, a terminal shows a progress bar.
    `faults` says what to do when a client fails: `fedrl.faults.stop()`, the default, or `leave_out()`.
    """
    at_least(1, rounds=rounds, seeds=seeds, eval_every=eval_every)
    at_least(0, seed=seed)
    if seed + seeds > 2**32:
        raise ValueError(f"seeds go up to 2**32 - 1, got {seeds} from {seed} on; choose a smaller seed")
    _check_quorum(faults, federation)
    algorithm = method(federation)
    evaluation = evaluation or default_evaluation(federation)
    usual_engine = fused if isinstance(federation.environment, Environment) else processes
    rule, played = faults or STOP, range(seed, seed + seeds)
    play = (engine or usual_engine())(algorithm, federation, evaluation(algorithm, federation), eval_every, rule)
    play = play._replace(init=partial(_begun, play))
    what = partial(
        identity.of_run, method, federation, evaluation, seeds=played, eval_every=eval_every, engine=play.kind
    )
    check = partial(check_quorum, rule, first_seed=seed, explain=play.explain)
    journal = Journal(
        out, Ledger(algorithm, federation), partial(snapshot, algorithm) if snapshot else None, check,
        partial(left_out.log_fields, first_seed=seed, explain=play.explain), warn,
    )  # fmt: skip
    with closing(play), _owned(out, what, warn), closing(journal):
        at = journal.begin(play, played, rounds, warn)
        try:
            with _watching(callback, seeds) as see:
                singly = 0  # up to this round, one at a time
                for count in _paces(play.most):
                    if at.round >= rounds:
                        break
                    count = min(count, rounds - at.round, eval_every - at.round % eval_every if snapshot else rounds)
                    count = 1 if at.round < singly else count
                    try:
                        state, metrics, final = _played(play, at, count, rounds, eval_every, check)
                    except Exception as error:
                        if count == 1:
                            error.add_note(f"in round {at.round + 1}")
                            raise
                        singly = at.round + count  # once more, to keep the rounds before the one that failed
                        continue
                    # one assignment: an interrupt finds either the old point or the new one, never half a step
                    at = journal.record(at.round, state, metrics, final)
                    if time.monotonic() - journal.saved_at >= checkpoint_seconds:
                        journal.save(at)
                    if see:
                        for row in _newest(journal.rows[-count:]):
                            see(row, rounds)
        finally:
            journal.save(at)
        content = policy_file.content(algorithm, federation, at.state, played, policy_file.name_of(method))
        return journal.finish(algorithm, play, at.state, content)


def _check_quorum(faults: Faults | None, federation: Federation) -> None:
    if faults and faults.leaves_out and not isinstance(faults.quorum, float) and faults.quorum > federation.count:
        raise ValueError(
            f"a quorum of {faults.quorum} clients is more than the {federation.count} there are; lower it, or give a share "
            "of the cohort such as quorum=0.5"
        )


def _begun(play: Play, seeds: Sequence[int]) -> tuple[State, Metrics]:
    """The beginning of a run, whose drawn worlds have then been looked at."""
    state, opening = play.init(seeds)
    check_held(state.clients.env_params)
    return state, opening


@contextmanager
def _watching(callback: RowCallback | None, seeds: int) -> Iterator[RowCallback | None]:
    """`callback` itself, or where there is none and a person may be looking, a progress bar."""
    if callback or not sys.stderr.isatty():
        yield callback
        return
    from rich.console import Console

    from fedrl.records.progress import shown

    with shown(Console(stderr=True), ["training"], seeds) as bar:
        yield partial(bar, "training")


def _newest(rows: list[Row]) -> Iterator[Row]:
    """Those worth watching: the measured ones, and the last."""
    return (row for i, row in enumerate(rows, 1) if "return" in row or i == len(rows))


def _played(
    play: Play, at: Checkpoint, count: int, rounds: int, eval_every: int, check: Check
) -> tuple[State, Metrics, Metrics]:
    """The next `count` rounds: state, metrics [seeds, rounds, ...], last measurement. Raises if a round must not count."""
    state, metrics = jax.block_until_ready(play.advance(at.state, at.round, count))
    metrics = jax.device_get(metrics)
    for i in range(count):
        check(at.round + i + 1, {name: value[:, i] for name, value in metrics.items()})
    final = _final(play, state, at.round + count, rounds, eval_every)
    check(at.round + count, final)
    return state, metrics, final


def _final(play: Play, state: State, done: int, rounds: int, eval_every: int) -> Metrics:
    """The last round is always measured, also when it is not a multiple of `eval_every`."""
    return jax.device_get(play.evaluate(state)) if done == rounds and rounds % eval_every else {}


def _paces(most: int) -> Iterator[int]:
    """How many rounds to play per call so that one takes about half a second. It has no influence on the numbers."""
    count, before = 1, time.monotonic()
    while True:
        yield count
        took, before = time.monotonic() - before, time.monotonic()
        if took < 0.3:
            count = min(2 * count, most)
        elif took > 1.0:
            count = max(count // 2, 1)


def _owned(
    out: str | Path | None, what: Callable[[], identity.Config], warn: Callable[[str], None]
) -> AbstractContextManager:
    """The folder `out`, locked and found to hold `what` or nothing."""
    return folders.join(out, what(), warn) if out else nullcontext()
