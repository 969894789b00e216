"""The journal of a run: log rows, checkpoints and snapshots, and finally the policy; on disk, or only in memory."""

import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from fedrl.core.round import State
from fedrl.engines.engine import Play
from fedrl.policies.saved import SavedPolicy, from_parts
from fedrl.records import checkpoint, left_out, log, policy_file, snapshots, train_folder
from fedrl.records.checkpoint import Checkpoint
from fedrl.records.log import Row
from fedrl.records.rows import Ledger
from fedrl.records.tensors import named_leaves, save_tree
from fedrl.trees import Tree
from fedrl.types import Metrics

Check = Callable[[int, Metrics], None]  # (round, its metrics) -> raises if the round must not count


class Journal:
    """Everything a run records; nothing is written without a folder."""

    def __init__(
        self,
        out: str | Path | None,
        ledger: Ledger,
        snapshot: Callable[[State], Tree] | None,
        check: Check,
        fault_fields: Callable[[int, Metrics], Row],
        warn: Callable[[str], None],
    ):
        self.folder = Path(out) if out else None
        self.ledger, self.snapshot = ledger, snapshot
        self.check, self.fault_fields, self.warn = check, fault_fields, warn
        self.rows: list[Row] = []
        self.writer: log.LogWriter | None = None
        self.saved_at, self.saved_round = time.monotonic(), -1

    def begin(self, play: Play, seeds: range, rounds: int) -> Checkpoint:
        """Where to start from: the newest whole checkpoint, or round 0."""
        state, opening = play.init(list(seeds))
        if self.folder and (resumed := self._resume(self.folder, state, rounds)):
            return resumed
        metrics = jax.device_get(opening | play.evaluate(state))
        self.check(0, metrics)
        self._add(0, metrics)
        self._snapshot(0, state)
        return Checkpoint(state, 0, self._sync())

    def _resume(self, folder: Path, state: State, rounds: int) -> Checkpoint | None:
        """The checkpoint to continue from, with its rows. The log is cut only after everything has been checked."""
        newest, corrupted = checkpoint.newest(folder / "checkpoint", state)
        if newest and newest.round > rounds:
            raise ValueError(
                f"{folder} has already played {newest.round} rounds, {rounds} were asked for; give another out"
            )
        file, size = folder / "log.jsonl", newest.log_bytes if newest else 0
        rows = log.read(file, size if newest else None) if file.exists() else []
        if newest:
            log.check_end(file, rows, newest.round)
            self.rows, self.saved_round = rows, newest.round
            self.ledger.resume(rows[-1])
        else:
            train_folder.check_before_starting_again(folder)
        start = f"round {newest.round}" if newest else "the start"
        for reason in corrupted:
            self.warn(f"checkpoint skipped: {reason}; continuing from {start}")
        self.writer = log.LogWriter(file, size)
        return newest

    def record(self, done: int, state: State, metrics: Metrics, final: Metrics) -> Checkpoint:
        """Rows for rounds done+1, done+2, …; every leaf of `metrics` is [seeds, rounds, ...]. Returns the new position."""
        count = next(iter(metrics.values())).shape[1]
        for i in range(count):
            of_round = {name: value[:, i] for name, value in metrics.items()}
            last = final if i == count - 1 else {}
            self._add(done + i + 1, of_round | last)
        if "return" in self.rows[-1]:
            self._snapshot(done + count, state)
        return Checkpoint(state, done + count, self._sync())

    def _snapshot(self, round: int, state: State) -> None:
        if self.folder and self.snapshot:
            snapshots.save(self.folder, round, self.snapshot(state))

    def _add(self, round: int, metrics: Metrics) -> None:
        row = self.ledger.row(round, metrics) | self.fault_fields(round, metrics)
        if "left_out" in row:
            self.warn(left_out.warning(row["round"], row["left_out"]))
        self.rows.append(row)
        if self.writer:
            self.writer.write(row)

    def _sync(self) -> int:
        return self.writer.sync() if self.writer else 0

    def close(self) -> None:
        if self.writer:
            self.writer.close()

    def save(self, at: Checkpoint) -> None:
        if self.folder and at.round != self.saved_round:
            checkpoint.save(self.folder / "checkpoint", at.state, round=at.round, log_bytes=at.log_bytes)
            self.saved_at, self.saved_round = time.monotonic(), at.round

    def finish(self, returns: np.ndarray, content: policy_file.Content) -> SavedPolicy:
        """Write the policy and the final returns [seeds, clients]; the policy as a reader of that file would have it."""
        rounds = {"rounds": str(self.rows[-1]["round"])}
        if self.folder:
            save_tree(self.folder / "policy.safetensors", content.tensors, content.header | rounds)
            save_tree(self.folder / "returns.safetensors", {"returns": returns}, rounds)
        tensors = {name: np.asarray(leaf) for name, leaf in named_leaves(content.tensors).items()}
        return from_parts(tensors, content.header | rounds, "this run")
