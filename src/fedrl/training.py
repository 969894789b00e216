"""Train: play rounds, log them, save checkpoints. Killed at any instant and resumed, a run ends with the same bytes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path

import jax
import numpy as np

from fedrl import trained
from fedrl.arguments import at_least, checked
from fedrl.blocks import play_blocks
from fedrl.core.round import State
from fedrl.engines.absences import check_quorum
from fedrl.engines.engine import Engine, Play, do_nothing
from fedrl.engines.fused import fused
from fedrl.engines.local_processes import processes
from fedrl.environments.env_params import check_drawn_values
from fedrl.environments.protocol import Environment
from fedrl.evaluation import Evaluation, default_evaluation
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation, Method
from fedrl.finished_run import Run
from fedrl.records import experiment_file, identity, left_out, policy_file, progress, run_toml
from fedrl.records import folder as folders
from fedrl.records.best import StopRule
from fedrl.records.journal import Journal
from fedrl.records.log import Row, RowCallback
from fedrl.records.rows import Ledger, returns_of
from fedrl.trained import Experiment, Trained
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
    stop_at: float | None = None,
    patience: int | None = None,
    keep_best: bool = True,
    snapshot: Snapshot | None = None,
    callback: RowCallback | None = None,
    warn: Warn = print,
    checkpoint_seconds: float = 10.0,
    faults: Faults | None = None,
    store_experiment: bool = True,
) -> Run:
    """Play `rounds` rounds for `seeds` seeds, starting at `seed`, and evaluate every `eval_every` rounds.

    With `out`, the run writes log, checkpoints and policy to that folder and continues from what it finds there: a folder
    belongs to one run, which its `run.toml` describes, and to one process at a time. Without it, the run stays in memory.
    The default engine is the exact fused one, or `processes` if the environment cannot be compiled.

    The run ends early once the mean return over seeds and clients reaches `stop_at`, or after `patience` evaluations in a
    row that were no better than the best before them. `keep_best` also keeps the policy of the best evaluation:
    `run.policy(best=True)`. `store_experiment` also writes `experiment.pkl`, with which `fedrl evaluate`, `fedrl play`,
    `fedrl run --resume` and `fedrl.load` can act in the federation again (`records/experiment_file.py`).

    `snapshot` is applied to the state of each evaluated round and its result saved there too, one file per round
    (`records/snapshots.py`). `callback` is called after every few rounds and for every evaluated one; without it, terminals
    and notebooks show a progress bar, logs a line a round. `faults` decides what to do when a client fails:
    `fedrl.faults.stop()` (default) or `leave_out()`.
    """
    at_least(1, rounds=rounds, seeds=seeds, eval_every=eval_every)
    at_least(0, seed=seed)
    if patience is not None:
        at_least(1, "leave it out to play all rounds", patience=patience)
    if seed + seeds > 2**32:
        raise ValueError(f"seeds go up to 2**32 - 1, got {seeds} from {seed} on; choose a smaller seed")
    _check_quorum(faults, federation)
    experiment = Experiment(
        method, federation, rounds, range(seed, seed + seeds),
        engine or (fused() if isinstance(federation.environment, Environment) else processes()),
        evaluation or default_evaluation(federation),
        eval_every, snapshot, faults or STOP, stop_at, patience, keep_best,
    )  # fmt: skip
    store = partial(_store, experiment, Path(out), warn) if out and store_experiment else do_nothing
    return _run(experiment, out, None, store, callback, warn, checkpoint_seconds)


def resume(
    folder: str | Path,
    *,
    trust: bool = False,
    engine: Engine | None = None,
    callback: RowCallback | None = None,
    warn: Warn = print,
    faults: Faults | None = None,
) -> Run:
    """Continue the run of `train` in `folder` to the rounds it was asked for; `engine` and `faults` replace its own.

    Its `experiment.pkl` is opened, which runs the code inside: `trust` as in `fedrl.load`.
    """
    experiment: Experiment = experiment_file.read(Path(folder), trust=trust)
    experiment = experiment._replace(engine=engine or experiment.engine, faults=faults or experiment.faults)
    stored = run_toml.read_config(folder)  # the same run by definition: its description need not be computed again
    return _run(experiment, folder, stored, do_nothing, callback, warn)


def _store(experiment: Experiment, folder: Path, warn: Warn) -> None:
    """Write `experiment.pkl`; a run whose parts cannot be pickled goes on without it."""
    try:
        experiment_file.write(folder, experiment, rounds=experiment.rounds)
    except experiment_file.CannotStore as error:
        warn(
            f"the experiment cannot be stored ({error}), so fedrl evaluate, play and run --resume will not work with "
            f"{folder}; its policy, log and figures will"
        )


def _run(
    experiment: Experiment,
    out: str | Path | None,
    stored: identity.Config | None,
    store: Callable[[], None],
    callback: RowCallback | None,
    warn: Warn,
    checkpoint_seconds: float = 10.0,
) -> Run:
    method, federation, rounds, run_seeds, engine, evaluation, eval_every, snapshot, rule = experiment[:9]
    algorithm, stop_rule = method(federation), StopRule(experiment.stop_at, experiment.patience)
    play = engine(algorithm, federation, evaluation(algorithm, federation), eval_every, rule)
    play = play._replace(init=partial(_init, play))

    def describe() -> identity.Config:
        if stored:
            return stored | {"engine": play.kind}
        seeds, kind = run_seeds, play.kind
        return identity.of_run(method, federation, evaluation, seeds=seeds, eval_every=eval_every, engine=kind)

    check = partial(check_quorum, rule, first_seed=run_seeds.start, explain=play.explain)
    journal = Journal(
        out, Ledger(algorithm, federation), partial(snapshot, algorithm) if snapshot else None, check,
        partial(left_out.log_fields, first_seed=run_seeds.start, explain=play.explain), warn,
        policy_file.writer(algorithm, federation, run_seeds, policy_file.name_of(method)), experiment.keep_best,
    )  # fmt: skip
    shows = progress.of_one_run(callback, len(run_seeds))
    with closing(play), _lock_folder(out, describe, warn), closing(journal), shows as show:
        at = journal.begin(play, run_seeds, rounds, store, partial(trained.like, algorithm, federation, len(run_seeds)))
        try:
            shown, blocks = len(journal.rows), play_blocks(play, journal, at, rounds, eval_every, check, stop_rule)
            for at in blocks:  # one assignment: an interrupt finds either the old checkpoint or the new one
                if time.monotonic() - journal.saved_at >= checkpoint_seconds:
                    journal.save(at)
                for row in _newest(journal.rows[shown:]):
                    show(row, at.round if journal.best.ends(stop_rule) else rounds)
                shown = len(journal.rows)
        finally:
            journal.save(at)
        return _finish(journal, play, Trained(algorithm, federation, engine, evaluation, at.state, at.round))


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


def _newest(rows: list[Row]) -> Iterator[Row]:
    """Those worth showing: the evaluated ones, and the last."""
    return (row for i, row in enumerate(rows, 1) if "return" in row or i == len(rows))


def _finish(journal: Journal, play: Play, it: Trained) -> Run:
    """Save the policy with the final returns; a run that was finished before is not evaluated again."""
    shared = jax.tree.leaves(it.state.server)  # none if every client has parameters of its own
    theta = jax.vmap(it.algorithm.answer)(it.state.server) if shared else it.state.clients.memory
    returns = journal.final_returns()
    if returns is None:
        returns = returns_of(jax.device_get(play.evaluate(it.state)))
    policy, best = journal.finish(returns, it.state)
    return Run(journal.rows, jax.tree.map(np.asarray, theta), returns, journal.folder, policy, best, lambda: it)
