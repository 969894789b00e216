"""How things look: numbers, verdicts, tables for people, JSON for programs. Without JAX, for which lists need not wait."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from fedrl.records.formatting import number as number
from fedrl.records.formatting import say as say
from fedrl.records.formatting import table as table

if TYPE_CHECKING:
    from fedrl.experiments.recipe import Claim

MARKS = {"holds": ("✓", "green"), "does not hold": ("✗", "red"), "undecided": ("?", "yellow")}
WIDE = 120  # for files and pipes, which have no width


def screen(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WIDE, highlight=False, markup=False, emoji=False)


def claims(console: Console, decided: "list[Claim]", *, numbers: bool) -> None:
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
    from fedrl.records.tensors import write_atomically

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
