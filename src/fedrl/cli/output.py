"""How things look: numbers, verdicts, tables for people, JSON for programs."""

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedrl.experiments.recipe import Claim
from fedrl.records.formatting import number as number
from fedrl.records.formatting import say as say
from fedrl.records.tensors import write_atomically

MARKS = {"holds": ("✓", "green"), "does not hold": ("✗", "red"), "undecided": ("?", "yellow")}
WIDE = 120  # for files and pipes, which have no width


def screen(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WIDE, highlight=False, markup=False)


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]], *, left: int = 1) -> Table:
    """A plain table; the first `left` columns are text, the others numbers."""
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for i, name in enumerate(columns):
        grid.add_column(name, justify="left" if i < left else "right", no_wrap=i == 0)
    for row in rows:
        grid.add_row(*(Text(item if isinstance(item, str) else number(item)) for item in row))
    return grid


def claims(console: Console, decided: list[Claim], *, numbers: bool) -> None:
    for claim in decided:
        mark, colour = MARKS.get(claim.verdict, ("?", "yellow"))
        console.print(Text.assemble((f"{mark} {claim.verdict}", colour), f": {claim.text}"))
        for name, value in claim.numbers.items() if numbers else ():
            console.print(Text(f"    {name}: {number(value)}", style="dim"))
    if not decided:
        say(console, "This recipe makes no claims.", "dim")


def emit(content: Any) -> None:
    """`content` as JSON on stdout."""
    print(json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False))


def write(file: Path, content: Any) -> Path:
    """`content` as JSON in `file`."""
    write_atomically(file, (json.dumps(plain(content), indent=1, allow_nan=False) + "\n").encode())
    return file


def plain(value: Any) -> Any:
    """`value` as JSON can represent it: NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
