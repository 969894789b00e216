"""Train: play rounds, log them, keep checkpoints. Killed at any instant and resumed, it ends with the same bytes."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from fedrl.algorithms.fedavg import Method
from fedrl.engines.engine import Engine, Play, State
from fedrl.engines.fused import fused
from fedrl.engines.processes import processes
from fedrl.environments.protocol import Environment
from fedrl.federation import Federation
from fedrl.records import checkpoint, kept, log
from fedrl.records.checkpoint import Checkpoint
from fedrl.records.measure import Measure, usual
from fedrl.records.rows import Ledger, Row, measured
from fedrl.records.tensors import save_tree, write_atomically
from fedrl.trees import Tree
from fedrl.types import Algorithm, Metrics

Watch = Callable[[Row, int], None]  # (newest row, rounds in all)
Keep = Callable[[Algorithm, State], Tree]  # what to keep of a state, every leaf with a leading seed axis


class Run(NamedTuple):
    """A finished training run."""

    rows: list[Row]  # the log
    theta: Tree  # the learnt parameters, with a leading seed axis
    returns: np.ndarray  # [seeds, clients] at the end
    folder: Path | None

    def returns_by_client(self) -> np.ndarray:
        """Mean final return of each client over the seeds."""
        return self.returns.mean(axis=0)

    def plot(self, path: str | Path | None = None) -> Path:
        """Draw the learning curve; beside the log unless `path` says where."""
        from fedrl.plots.curves import draw

        target = Path(path or (self.folder or Path(".")) / "figures" / "return.png")
        return draw({"": self.rows}, target)


def train(
    method: Method,
    federation: Federation,
    *,
    rounds: int,
    seed: int = 0,
    seeds: int = 1,
    out: str | Path | None = None,
    engine: Engine | None = None,
    measure: Measure | None = None,
    every: int = 1,
    keep: Keep | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] = print,
    checkpoint_seconds: float = 10.0,
) -> Run:
    """Play `rounds` rounds for `seeds` seeds from `seed` on, measuring every `every` rounds.

    With `out` the run leaves log, checkpoints and policy there, and goes on from what it finds there. Without, it is only
    in memory. The default engine is the exact fused one, or `processes` where the environment cannot be compiled.
    What `keep` makes of the state at each measured round stays there too, in a file a round (`records/kept.py`).
    `watch` is called after every few rounds and for every measured one; without one, a terminal shows a progress bar.
    """
    if rounds < 1 or seeds < 1 or every < 1:
        raise ValueError(f"rounds, seeds and every must be at least 1, got {rounds}, {seeds}, {every}")
    algorithm = method(federation)
    look = (measure or usual(federation))(algorithm, federation)
    usual_engine = fused if isinstance(federation.environment, Environment) else processes
    play = (engine or usual_engine())(algorithm, federation, look, every)
    with closing(play):
        journal = Journal(out, Ledger(algorithm, federation), partial(keep, algorithm) if keep else None)
        at = journal.begin(play, range(seed, seed + seeds), rounds, warn)
        try:
            with _watching(watch, seeds) as see:
                for count in _paces(play.most):
                    if at.round >= rounds:
                        break
                    count = min(count, rounds - at.round, every - at.round % every if keep else rounds)
                    state, metrics = play.advance(at.state, at.round, count)
                    final = _final(play, state, at.round + count, rounds, every)
                    # one assignment: an interrupt finds either the old point or the new one, never half a step
                    at = journal.record(at.round, state, jax.device_get(metrics), final)
                    if time.monotonic() - journal.saved_at >= checkpoint_seconds:
                        journal.save(at)
                    if see:
                        for row in _newest(journal.rows[-count:]):
                            see(row, rounds)
        finally:
            journal.save(at)
            journal.close()
        return journal.finish(algorithm, play, at.state)


@contextmanager
def _watching(watch: Watch | None, seeds: int) -> Iterator[Watch | None]:
    """`watch` itself, or where there is none and a person may be looking, a progress bar."""
    if watch or not sys.stderr.isatty():
        yield watch
        return
    from rich.console import Console

    from fedrl.cli.progress import shown

    with shown(Console(stderr=True), ["training"], seeds) as bar:
        yield partial(bar, "training")


def _newest(rows: list[Row]) -> Iterator[Row]:
    """Those worth watching: the measured ones, and the last."""
    return (row for i, row in enumerate(rows, 1) if "return" in row or i == len(rows))


def _final(play: Play, state: State, done: int, rounds: int, every: int) -> Metrics:
    """The last round is always measured, also when it is not a multiple of `every`."""
    return jax.device_get(play.measure(state)) if done == rounds and rounds % every else {}


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


def _same_seeds(file: Path, seeds: range) -> None:
    """Refuse to go on with other seeds than the folder was begun with."""
    wanted = {"first": seeds.start, "count": len(seeds)}
    if not file.exists():
        write_atomically(file, (json.dumps(wanted) + "\n").encode())
    elif (there := json.loads(file.read_text())) != wanted:
        raise ValueError(
            f"{file.parent} holds a run of {there['count']} seeds from {there['first']} on, {wanted['count']} from "
            f"{wanted['first']} on were asked for; give another out"
        )


class Journal:
    """What a run writes down while it goes. Without a folder, only in memory."""

    def __init__(self, out: str | Path | None, ledger: Ledger, keep: Callable[[State], Tree] | None = None):
        self.folder = Path(out) if out else None
        self.ledger, self.keep = ledger, keep
        self.rows: list[Row] = []
        self.writer: log.LogWriter | None = None
        self.saved_at, self.saved_round = time.monotonic(), -1

    def begin(self, play: Play, seeds: range, rounds: int, warn: Callable[[str], None]) -> Checkpoint:
        """Where to start from: the newest whole checkpoint, or the beginning."""
        state, opening = play.init(list(seeds))
        found = None
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            _same_seeds(self.folder / "seeds.json", seeds)
            found, damaged = checkpoint.newest(self.folder / "checkpoint", state)
            for what in damaged:
                warn(
                    f"checkpoint passed over: {what}; going on from {f'round {found.round}' if found else 'the start'}"
                )
            if found and found.round > rounds:
                raise ValueError(
                    f"{self.folder} has already played {found.round} rounds, {rounds} were asked for; give another out"
                )
            self.writer = log.LogWriter(self.folder / "log.jsonl", found.log_bytes if found else 0)
            if found:
                self.rows = log.read(self.folder / "log.jsonl")
                self.ledger.resume(self.rows[-1])
                self.saved_round = found.round
                return found
        self._add(self.ledger.row(0, jax.device_get(opening | play.measure(state))))
        self._keep(0, state)
        return Checkpoint(state, 0, self._synced())

    def record(self, done: int, state: State, metrics: Metrics, final: Metrics) -> Checkpoint:
        """Rows for rounds done+1, done+2, …; every leaf of `metrics` is [seeds, rounds, ...]. Returns where we are now."""
        count = next(iter(metrics.values())).shape[1]
        for i in range(count):
            row = self.ledger.row(done + i + 1, {name: value[:, i] for name, value in metrics.items()})
            self._add(row | (measured(final) if final and i == count - 1 else {}))
        if "return" in self.rows[-1]:
            self._keep(done + count, state)
        return Checkpoint(state, done + count, self._synced())

    def _keep(self, round: int, state: State) -> None:
        if self.folder and self.keep:
            kept.save(self.folder, round, self.keep(state))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        if self.writer:
            self.writer.write(row)

    def _synced(self) -> int:
        return self.writer.sync() if self.writer else 0

    def close(self) -> None:
        if self.writer:
            self.writer.close()

    def save(self, at: Checkpoint) -> None:
        if self.folder and at.round != self.saved_round:
            checkpoint.save(self.folder / "checkpoint", at.state, round=at.round, log_bytes=at.log_bytes)
            self.saved_at, self.saved_round = time.monotonic(), at.round

    def finish(self, algorithm: Algorithm, play: Play, state: State) -> Run:
        shared = jax.tree.leaves(state.server)  # none where every client keeps its own parameters
        theta = jax.vmap(algorithm.answer)(state.server) if shared else state.clients.memory
        returns = np.asarray(jax.device_get(play.measure(state))["measure/returns"], np.float64)
        if self.folder:
            save_tree(self.folder / "policy.safetensors", {"theta": theta})
            save_tree(self.folder / "returns.safetensors", {"returns": returns})
        return Run(self.rows, jax.tree.map(np.asarray, theta), returns, self.folder)
