"""Train: play rounds, log them, keep checkpoints. Killed at any instant and resumed, it ends with the same bytes."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from fedrl.algorithms.fedavg import Method
from fedrl.engines.engine import Engine, Play, State
from fedrl.engines.fused import fused
from fedrl.federation import Federation
from fedrl.records import checkpoint, log
from fedrl.records.measure import Measure, exact_return
from fedrl.records.rows import Ledger, Row, measured
from fedrl.records.tensors import save_tree
from fedrl.trees import Tree
from fedrl.types import Algorithm, Metrics

Watch = Callable[[Row, int], None]  # (newest row, rounds in all)


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
    watch: Watch | None = None,
    warn: Callable[[str], None] = print,
    checkpoint_seconds: float = 10.0,
) -> Run:
    """Play `rounds` rounds for `seeds` seeds from `seed` on, measuring every `every` rounds.

    With `out` the run leaves log, checkpoints and policy there, and goes on from what it finds there. Without, it is only
    in memory. The default engine is the exact fused one.
    """
    if rounds < 1 or seeds < 1 or every < 1:
        raise ValueError(f"rounds, seeds and every must be at least 1, got {rounds}, {seeds}, {every}")
    algorithm = method(federation)
    look = (measure or exact_return())(algorithm, federation)
    play = (engine or fused())(algorithm, federation, look, every)
    journal = Journal(out, Ledger(algorithm, federation), checkpoint_seconds)
    state, done = journal.begin(play, range(seed, seed + seeds), warn)
    try:
        pace = _paces(play.most)
        for count in pace:
            if done >= rounds:
                break
            count = min(count, rounds - done)
            state, metrics = play.advance(state, done, count)
            journal.record(done, jax.device_get(metrics), _final(play, state, done + count, rounds, every))
            done += count
            journal.maybe_save(state, done)
            if watch:
                watch(journal.rows[-1], rounds)
    finally:
        journal.save(state, done)
    return journal.finish(algorithm, play, state)


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


class Journal:
    """What a run writes down while it goes. Without a folder, only in memory."""

    def __init__(self, out: str | Path | None, ledger: Ledger, checkpoint_seconds: float):
        self.folder = Path(out) if out else None
        self.ledger = ledger
        self.rows: list[Row] = []
        self.writer: log.LogWriter | None = None
        self.checkpoint_seconds = checkpoint_seconds
        self.saved_at, self.saved_round = time.monotonic(), -1

    def begin(self, play: Play, seeds: range, warn: Callable[[str], None]) -> tuple[State, int]:
        """The state to start from and the rounds already played: the newest whole checkpoint, or a fresh start."""
        state, opening = play.init(list(seeds))
        if self.folder is None:
            self._first_row(play, state, jax.device_get(opening))
            return state, 0
        found, damaged = checkpoint.newest(self.folder / "checkpoint", state)
        for what in damaged:
            warn(f"checkpoint passed over: {what}; going on from {f'round {found.round}' if found else 'the start'}")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.writer = log.LogWriter(self.folder / "log.jsonl", found.log_bytes if found else 0)
        if found is None:
            self._first_row(play, state, jax.device_get(opening))
            return state, 0
        self.rows = log.read(self.folder / "log.jsonl")
        self.ledger.resume(self.rows[-1])
        self.saved_round = found.round
        return found.state, found.round

    def _first_row(self, play: Play, state: State, opening: Metrics) -> None:
        self._add(self.ledger.row(0, opening | jax.device_get(play.measure(state))))

    def record(self, done: int, metrics: Metrics, final: Metrics) -> None:
        """Rows for rounds done+1, done+2, …; every leaf of `metrics` is [seeds, rounds, ...]."""
        count = next(iter(metrics.values())).shape[1]
        for i in range(count):
            row = self.ledger.row(done + i + 1, {name: value[:, i] for name, value in metrics.items()})
            self._add(row | (measured(final) if final and i == count - 1 else {}))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        if self.writer:
            self.writer.write(row)

    def maybe_save(self, state: State, done: int) -> None:
        if time.monotonic() - self.saved_at >= self.checkpoint_seconds:
            self.save(state, done)

    def save(self, state: State, done: int) -> None:
        if self.writer is None or self.folder is None or done == self.saved_round:
            return
        checkpoint.save(self.folder / "checkpoint", state, round=done, log_bytes=self.writer.sync())
        self.saved_at, self.saved_round = time.monotonic(), done

    def finish(self, algorithm: Algorithm, play: Play, state: State) -> Run:
        learnt = jax.vmap(algorithm.answer)(state.server)
        theta = learnt if jax.tree.leaves(learnt) else state.clients.memory
        returns = np.asarray(jax.device_get(play.measure(state))["measure/returns"], np.float64)
        if self.writer and self.folder:
            self.writer.close()
            save_tree(self.folder / "policy.safetensors", {"theta": theta})
            save_tree(self.folder / "returns.safetensors", {"returns": returns})
        return Run(self.rows, jax.tree.map(np.asarray, theta), returns, self.folder)


