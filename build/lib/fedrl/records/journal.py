"""The journal of a run: rows of the log, checkpoints, and at the end the policy; on disk, or only in memory."""

import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from fedrl.core.round import State
from fedrl.engines.engine import Play
from fedrl.finished_run import Run
from fedrl.policies.saved import from_parts
from fedrl.records import checkpoint, left_out, log, policy_file, snapshots, train_folder
from fedrl.records.checkpoint import Checkpoint
from fedrl.records.rows import Ledger, Row, returns_of
from fedrl.records.tensors import named_leaves, save_tree
from fedrl.trees import Tree
from fedrl.types import Algorithm, Metrics

Check = Callable[[int, Metrics], None]  # (round, its metrics) -> raises if the round must not count


class Journal:
    """What a run writes down while it goes. Without a folder, only in memory."""

    def __init__(
        self,
        out: str | Path | None,
        ledger: Ledger,
        snapshot: Callable[[State], Tree] | None,
        check: Check,
        listed: Callable[[int, Metrics], Row],
        warn: Callable[[str], None],
    ):
        self.folder = Path(out) if out else None
        self.ledger, self.snapshot = ledger, snapshot
        self.check, self.listed, self.warn = check, listed, warn
        self.rows: list[Row] = []
        self.writer: log.LogWriter | None = None
        self.saved_at, self.saved_round = time.monotonic(), -1

    def begin(self, play: Play, seeds: range, rounds: int, warn: Callable[[str], None]) -> Checkpoint:
        """Where to start from: the newest whole checkpoint, or the beginning."""
        state, opening = play.init(list(seeds))
        if self.folder and (found := self._found(self.folder, state, rounds, warn)):
            return found
        metrics = jax.device_get(opening | play.evaluate(state))
        self.check(0, metrics)
        self._add(self.ledger.row(0, metrics) | self.listed(0, metrics))
        self._keep(0, state)
        return Checkpoint(state, 0, self._synced())

    def _found(self, folder: Path, state: State, rounds: int, warn: Callable[[str], None]) -> Checkpoint | None:
        """The checkpoint to go on from, its rows read. Nothing is cut off before all is found to be in order."""
        found, damaged = checkpoint.newest(folder / "checkpoint", state)
        if found and found.round > rounds:
            raise ValueError(
                f"{folder} has already played {found.round} rounds, {rounds} were asked for; give another out"
            )
        file, size = folder / "log.jsonl", found.log_bytes if found else 0
        rows = log.read(file, size if found else None) if file.exists() else []
        if found:
            log.check_end(file, rows, found.round)
            self.rows, self.saved_round = rows, found.round
            self.ledger.resume(rows[-1])
        else:
            train_folder.check_before_starting_again(folder)
        for what in damaged:
            warn(f"checkpoint passed over: {what}; going on from {f'round {found.round}' if found else 'the start'}")
        self.writer = log.LogWriter(file, size)
        return found

    def record(self, done: int, state: State, metrics: Metrics, final: Metrics) -> Checkpoint:
        """Rows for rounds done+1, done+2, …; every leaf of `metrics` is [seeds, rounds, ...]. Returns where we are now."""
        count = next(iter(metrics.values())).shape[1]
        for i in range(count):
            of_round = {name: value[:, i] for name, value in metrics.items()}
            last = final if i == count - 1 else {}
            row = self.ledger.row(done + i + 1, of_round | last)
            self._add(row | self.listed(done + i + 1, of_round | last))
        if "return" in self.rows[-1]:
            self._keep(done + count, state)
        return Checkpoint(state, done + count, self._synced())

    def _keep(self, round: int, state: State) -> None:
        if self.folder and self.snapshot:
            snapshots.save(self.folder, round, self.snapshot(state))

    def _add(self, row: Row) -> None:
        if "left_out" in row:
            self.warn(left_out.warning(row["round"], row["left_out"]))
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

    def finish(self, algorithm: Algorithm, play: Play, state: State, content: policy_file.Content) -> Run:
        """Write the policy and the final returns."""
        shared = jax.tree.leaves(state.server)  # none where every client keeps its own parameters
        theta = jax.vmap(algorithm.answer)(state.server) if shared else state.clients.memory
        returns = returns_of(jax.device_get(play.evaluate(state)))
        rounds = {"rounds": str(self.rows[-1]["round"])}
        if self.folder:
            save_tree(self.folder / "policy.safetensors", content.tensors, content.header | rounds)
            save_tree(self.folder / "returns.safetensors", {"returns": returns}, rounds)
        tensors = {name: np.asarray(leaf) for name, leaf in named_leaves(content.tensors).items()}
        policy = from_parts(tensors, content.header | rounds, "this run")
        return Run(self.rows, jax.tree.map(np.asarray, theta), returns, self.folder, policy)
