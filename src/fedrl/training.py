"""Train: play rounds, log them, save checkpoints. Killed at any instant and resumed, a run ends with the same bytes."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import jax
import numpy as np

from fedrl.arguments import at_least, checked
from fedrl.core.round import State
from fedrl.engines.absences import check_quorum
from fedrl.engines.engine import Engine, Play
from fedrl.engines.fused import fused
from fedrl.engines.processes import processes
from fedrl.environments.env_params import check_drawn_values
from fedrl.environments.protocol import Environment
from fedrl.evaluation import Evaluation, default_evaluation
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation, Method
from fedrl.finished_run import Run
from fedrl.records import folder as folders
from fedrl.records import identity, left_out, policy_file
from fedrl.records.checkpoint import Checkpoint
from fedrl.records.journal import Check, Journal
from fedrl.records.log import Row, RowCallback
from fedrl.records.rows import Ledger, returns_of
from fedrl.trees import Tree
from fedrl.types import Algorithm, Metrics

Snapshot = Callable[[Algorithm, State], Tree]  # what to save of a state, every leaf with a leading seed axis
Warn = Callable[[str], None]


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
    warn: Warn = print,
    checkpoint_seconds: float = 10.0,
    faults: Faults | None = None,
) -> Run:
    """Play `rounds` rounds for `seeds` seeds, starting at `seed`, and evaluate every `eval_every` rounds.

    With `out`, the run writes log, checkpoints and policy to that folder and continues from what it finds there: a folder
    belongs to one run, which its `run.toml` describes, and to one process at a time. Without it, the run stays in memory.
    The default engine is the exact fused one, or `processes` if the environment cannot be compiled.
    `snapshot` is applied to the state of each evaluated round and its result saved there too, one file per round
    (`records/snapshots.py`). `callback` is called after every few rounds and for every evaluated one; without it, a terminal
    shows a progress bar. `faults` decides what to do when a client fails: `fedrl.faults.stop()` (default) or `leave_out()`.
    """
    at_least(1, rounds=rounds, seeds=seeds, eval_every=eval_every)
    at_least(0, seed=seed)
    if seed + seeds > 2**32:
        raise ValueError(f"seeds go up to 2**32 - 1, got {seeds} from {seed} on; choose a smaller seed")
    _check_quorum(faults, federation)
    algorithm = method(federation)
    evaluation = evaluation or default_evaluation(federation)
    rule, run_seeds = faults or STOP, range(seed, seed + seeds)
    engine = engine or (fused() if isinstance(federation.environment, Environment) else processes())
    play = engine(algorithm, federation, evaluation(algorithm, federation), eval_every, rule)
    play = play._replace(init=partial(_init, play))
    describe = partial(
        identity.of_run, method, federation, evaluation, seeds=run_seeds, eval_every=eval_every, engine=play.kind
    )
    check = partial(check_quorum, rule, first_seed=seed, explain=play.explain)
    journal = Journal(
        out, Ledger(algorithm, federation), partial(snapshot, algorithm) if snapshot else None, check,
        partial(left_out.log_fields, first_seed=seed, explain=play.explain), warn,
    )  # fmt: skip
    with closing(play), _lock_folder(out, describe, warn), closing(journal):
        at = journal.begin(play, run_seeds, rounds)
        try:
            with _progress(callback, seeds) as show:
                shown, blocks = len(journal.rows), _play_blocks(play, journal, at, rounds, eval_every, check)
                for at in blocks:  # one assignment: an interrupt finds either the old checkpoint or the new one
                    if time.monotonic() - journal.saved_at >= checkpoint_seconds:
                        journal.save(at)
                    if show:
                        for row in _newest(journal.rows[shown:]):
                            show(row, rounds)
                    shown = len(journal.rows)
        finally:
            journal.save(at)
        content = policy_file.content(algorithm, federation, at.state, run_seeds, policy_file.name_of(method))
        return _finish(journal, algorithm, play, at.state, content)


def _check_quorum(faults: Faults | None, federation: Federation) -> None:
    if faults and faults.leaves_out and not isinstance(faults.quorum, float) and faults.quorum > federation.count:
        raise ValueError(
            f"a quorum of {faults.quorum} clients is more than the {federation.count} there are; lower it, or give a share "
            "of the cohort such as quorum=0.5"
        )


def _init(play: Play, seeds: Sequence[int]) -> tuple[State, Metrics]:
    """The initial state, once the environment parameters in it have been checked."""
    state, opening = play.init(seeds)
    check_drawn_values(state.clients.env_params)
    return state, opening


def _lock_folder(
    out: str | Path | None, describe: Callable[[], identity.Config], warn: Warn
) -> AbstractContextManager[object]:
    """The folder `out`, locked; it is empty or holds the run that `describe` describes."""
    return folders.join(out, describe(), warn) if out else nullcontext()


@contextmanager
def _progress(callback: RowCallback | None, seeds: int) -> Iterator[RowCallback | None]:
    """`callback` itself; without one, a progress bar if stderr is a terminal."""
    if callback or not sys.stderr.isatty():
        yield callback
        return
    from rich.console import Console

    from fedrl.records.progress import shown

    with shown(Console(stderr=True), ["training"], seeds) as bar:
        yield partial(bar, "training")


def _play_blocks(
    play: Play, journal: Journal, at: Checkpoint, rounds: int, eval_every: int, check: Check
) -> Iterator[Checkpoint]:
    """Play the remaining rounds a few at a time, record them, and yield where the run is after each block.

    A block that fails is played again round by round, to keep the rounds before the one that failed.
    """
    one_by_one_until = 0
    for count in _block_sizes(play.most):
        if at.round >= rounds:
            return
        to_evaluation = eval_every - at.round % eval_every if journal.snapshot else rounds
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


def _newest(rows: list[Row]) -> Iterator[Row]:
    """Those worth showing: the evaluated ones, and the last."""
    return (row for i, row in enumerate(rows, 1) if "return" in row or i == len(rows))


def _finish(journal: Journal, algorithm: Algorithm, play: Play, state: State, content: policy_file.Content) -> Run:
    """Evaluate once more, and save the policy with the final returns."""
    shared = jax.tree.leaves(state.server)  # none if every client has parameters of its own
    theta = jax.vmap(algorithm.answer)(state.server) if shared else state.clients.memory
    returns = returns_of(jax.device_get(play.evaluate(state)))
    policy = journal.finish(returns, content)
    return Run(journal.rows, jax.tree.map(np.asarray, theta), returns, journal.folder, policy)
