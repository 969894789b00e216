"""`log.jsonl`: one JSON object per round, appended. Plots, reports and claims read nothing else.

NaN and infinity become null, because JSON has neither; `columns` turns null back into NaN.
"""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESTORE = "restore the whole log, or give another out"
Row = dict[str, Any]  # one round
RowCallback = Callable[[Row, int], None]  # (newest row, rounds in all)
ArmCallback = Callable[[str, Row, int], None]  # (arm, newest row, rounds of this arm)
COSTS = (
    "seconds",
    "env_steps",
    "bytes_down",
    "bytes_up",
    "bytes_peer",
)  # in every row; a resumed run continues from them


class LogWriter:
    """Appends rows at byte `offset`, after truncating what follows: rows of rounds that will be run again.

    Every row is flushed at once, so that the log can be followed; `sync` puts it on the disk. `bytes` is the length at the
    last `sync`, which a checkpoint should store.
    """

    def __init__(self, path: str | Path, offset: int = 0):
        path = Path(path)
        self._file = open(path, "r+b" if path.exists() else "x+b")  # noqa: SIM115 (closed by `close`)
        try:
            _check_offset(path, self._file, offset)
            self._file.truncate(offset)
            self._file.seek(offset)
            self.bytes = offset
            self.sync()
        except BaseException:
            self._file.close()
            raise

    def write(self, row: Row) -> None:
        """Append one row; numbers and arrays of NumPy and JAX become plain numbers and lists."""
        line = json.dumps({name: plain(name, value) for name, value in row.items()}, allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def sync(self) -> int:
        """Put all rows on the disk and return `bytes`."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.bytes = self._file.tell()
        return self.bytes

    def tell(self) -> int:
        """The length of the log with all rows so far, which may not be on the disk yet."""
        return self._file.tell()

    def close(self) -> None:
        if not self._file.closed:
            self.sync()
            self._file.close()

    def __enter__(self) -> "LogWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: str | Path, size: int | None = None) -> list[Row]:
    """All rows, or those in the first `size` bytes, without a torn last line (the run is writing, or was killed).

    Any other line that is not a row with its round is an error; so is a first line that does not begin like a row.
    """
    lines = Path(path).read_bytes()[:size].splitlines(keepends=True)
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("not an object")
            if not isinstance(row.get("round"), int):
                raise ValueError("its round is not a whole number")
        except ValueError as error:
            if number == len(lines) and not line.endswith(b"\n") and (number > 1 or line.startswith(b"{")):
                break
            raise ValueError(
                f"{path}, line {number}: expected one JSON object, a round's row, got {line[:40]!r} ({error}); "
                "use another copy"
            ) from None
        rows.append(row)
    return rows


def check_end(path: Path, rows: list[Row], round: int) -> None:
    """Raise unless the last of `rows` is that of the checkpoint's `round` and has everything the next rows need."""
    last = rows[-1] if rows else {}
    if last.get("round") != round:
        state = f"ends with round {last.get('round')!r}" if rows else "is empty" if path.exists() else "is missing"
        raise ValueError(f"{path} {state}, and the checkpoint continues from round {round}; {RESTORE}")
    for name in COSTS:
        if not isinstance(last.get(name), int | float):
            raise ValueError(
                f"{path}: the row of round {round} has {name} {last.get(name)!r}, expected a number; {RESTORE}"
            )


def columns(rows: list[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rounds [n] and values [n, ...] of the rows that have the field `name`; both empty if none has."""
    selected = [row for row in rows if name in row]
    try:
        values = np.array([row[name] for row in selected], dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"field {name!r} is not the same shape of numbers in every row ({error}); pick the rows before the columns"
        ) from None
    return np.array([row["round"] for row in selected], dtype=np.int64), values


def _check_offset(path: Path, file: Any, offset: int) -> None:
    size = os.fstat(file.fileno()).st_size
    if not 0 <= offset <= size:
        raise ValueError(f"{path} has {size} bytes, fewer than the {offset} that the checkpoint counts; {RESTORE}")
    file.seek(max(offset - 1, 0))
    if offset and file.read(1) != b"\n":
        raise ValueError(
            f"byte {offset} of {path} is inside a line, so the checkpoint belongs to another log; {RESTORE}"
        )


def plain(name: str, value: Any) -> Any:
    """`value` as JSON can represent it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(name, item) for item in value]
    if not hasattr(value, "dtype"):
        raise TypeError(f"log field {name!r} is a {type(value).__name__}; log numbers, text, lists, dicts or arrays")
    array = np.asarray(value)
    if array.dtype.kind in "OcMm":
        raise TypeError(f"log field {name!r} has dtype {array.dtype}; log real numbers")
    if array.dtype.kind in "biuU":
        return array.tolist()
    return plain(name, array.astype(np.float64).tolist())
