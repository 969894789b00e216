"""The journal of a run: log rows, checkpoints, snapshots, the best policy so far and finally the last; on disk, or only in
memory."""

import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from safetensors import SafetensorError

from fedrl.core.round import State
from fedrl.engines.engine import Play
from fedrl.policies import saved
from fedrl.policies.saved import SavedPolicy, from_parts
from fedrl.records import checkpoint, left_out, log, policy_file, returns_file, snapshots, train_folder
from fedrl.records.best import BestSoFar
from fedrl.records.checkpoint import Checkpoint
from fedrl.records.log import Row
from fedrl.records.rows import Ledger
from fedrl.records.tensors import named_leaves, save_tree
from fedrl.trees import Tree
from fedrl.types import Metrics

POLICY, BEST = "policy.safetensors", "best.safetensors"
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
        content: Callable[[State], policy_file.Content],
        keep_best: bool,
    ):
        self.folder = Path(out) if out else None
        self.ledger, self.snapshot = ledger, snapshot
        self.check, self.fault_fields, self.warn = check, fault_fields, warn
        self.content, self.keep_best = content, keep_best
        self.best, self.best_saved = BestSoFar(), -1  # the round that the file of the best policy holds
        self.best_state: State | None = None  # None if it is from before this process
        self.rows: list[Row] = []
        self.played = False  # by this process
        self.writer: log.LogWriter | None = None
        self.saved_at, self.saved_round = time.monotonic(), -1

    def begin(
        self, play: Play, seeds: range, rounds: int, store: Callable[[], None], like: Callable[[], State]
    ) -> Checkpoint:
        """Where to start from: the newest whole checkpoint, or round 0. Calls `store` once the folder has been checked.

        `like` is a state with the shapes of the run's: to resume, the opening need not be played again.
        """
        newest: Checkpoint | None = None
        corrupted: list[str] = []
        if self.folder and (checkpoints := self.folder / "checkpoint").is_dir():
            newest, corrupted = checkpoint.newest(checkpoints, like())
        if newest is None:  # before anything is written: if it fails, the folder stays as it is
            state, opening = play.init(list(seeds))
        if self.folder:
            self._open(self.folder, newest, corrupted, rounds)
        store()
        if newest:
            return newest
        metrics = jax.device_get(opening | play.evaluate(state))
        self.check(0, metrics)
        self._add(0, metrics)
        self._keep(0, state)
        return Checkpoint(state, 0, self._written())

    def _open(self, folder: Path, newest: Checkpoint | None, corrupted: list[str], rounds: int) -> None:
        """Open the log, with the rows up to the checkpoint. It is cut only after everything has been checked."""
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
            for row in rows:
                self.best.see(row)
            self.best_saved = _rounds_of(folder / BEST) if (folder / BEST).exists() else -1
        else:
            train_folder.check_before_starting_again(folder)
        start = f"round {newest.round}" if newest else "the start"
        for reason in corrupted:
            self.warn(f"checkpoint skipped: {reason}; continuing from {start}")
        self.writer = log.LogWriter(file, size)

    def record(self, done: int, state: State, metrics: Metrics, final: Metrics) -> Checkpoint:
        """Rows for rounds done+1, done+2, …; every leaf of `metrics` is [seeds, rounds, ...]. Returns the new position."""
        count = next(iter(metrics.values())).shape[1]
        for i in range(count):
            of_round = {name: value[:, i] for name, value in metrics.items()}
            last = final if i == count - 1 else {}
            self._add(done + i + 1, of_round | last)
        if "return" in self.rows[-1]:
            self._keep(done + count, state)
        return Checkpoint(state, done + count, self._written())

    def _keep(self, round: int, state: State) -> None:
        """What is kept of an evaluated round: its snapshot, and the state if it is the best so far."""
        if self.folder and self.snapshot:
            snapshots.save(self.folder, round, self.snapshot(state))
        if self.keep_best and self.best.round == round:
            self.best_state, self.best_saved = state, -1

    def _add(self, round: int, metrics: Metrics) -> None:
        self.played = True
        row = self.ledger.row(round, metrics) | self.fault_fields(round, metrics)
        if "left_out" in row:
            self.warn(left_out.warning(row["round"], row["left_out"]))
        self.rows.append(row)
        self.best.see(row)
        if self.writer:
            self.writer.write(row)

    def _written(self) -> int:
        """The length of the log; `save` puts it on the disk."""
        return self.writer.tell() if self.writer else 0

    def close(self) -> None:
        if self.writer:
            self.writer.close()

    def save(self, at: Checkpoint) -> None:
        """The best policy first: a checkpoint that is whole has that of its rounds, or of later ones that come again."""
        if self.folder and self.writer and at.round != self.saved_round:
            self._save_best(self.folder)
            self.writer.sync()
            checkpoint.save(self.folder / "checkpoint", at.state, round=at.round, log_bytes=at.log_bytes)
            self.saved_at, self.saved_round = time.monotonic(), at.round

    def _save_best(self, folder: Path) -> None:
        if self.best_state is not None and self.best_saved != self.best.round:
            content = self.content(self.best_state)
            save_tree(folder / BEST, content.tensors, content.header | {"rounds": str(self.best.round)})
            self.best_saved = self.best.round

    def final_returns(self) -> np.ndarray | None:
        """What is already written, if the run was finished before and no round has been played since."""
        if self.folder is None or self.played or not (self.folder / returns_file.NAME).exists():
            return None
        try:
            returns, round = returns_file.read(self.folder)
        except (OSError, SafetensorError) as error:
            self.warn(f"{self.folder / returns_file.NAME} cannot be read ({error}); the policy is evaluated again")
            return None
        return returns if round == self.rows[-1]["round"] else None

    def finish(self, returns: np.ndarray, state: State) -> tuple[SavedPolicy, SavedPolicy | None]:
        """Write the policy and the final returns [seeds, clients]; the last and the best policy as readers have them."""
        content, rounds = self.content(state), {"rounds": str(self.rows[-1]["round"])}
        if self.folder:
            save_tree(self.folder / POLICY, content.tensors, content.header | rounds)
            returns_file.write(self.folder, returns, self.rows[-1]["round"])
        return _as_read(content, rounds), self._finish_best()

    def _finish_best(self) -> SavedPolicy | None:
        """None if it was not kept: a file of another round must not stay."""
        if self.best_state is not None:
            if self.folder:
                self._save_best(self.folder)
            return _as_read(self.content(self.best_state), {"rounds": str(self.best.round)})
        if self.folder and self.best_saved == self.best.round:
            return saved.read(self.folder / BEST)
        if self.folder and self.best_saved >= 0:
            (self.folder / BEST).unlink()
            self.warn(f"{self.folder / BEST} held another round than the best, {self.best.round}, and was removed")
        return None


def _as_read(content: policy_file.Content, rounds: dict[str, str]) -> SavedPolicy:
    tensors = {name: np.asarray(leaf) for name, leaf in named_leaves(content.tensors).items()}
    return from_parts(tensors, content.header | rounds, "this run")


def _rounds_of(file: Path) -> int:
    """Of which round the policy is; -1 if it cannot be read."""
    try:
        return int(saved.read(file).header["rounds"])
    except (ValueError, KeyError, OSError):
        return -1
