"""Numbers, lines and tables as a terminal shows them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text


def say(console: Console, text: str = "", style: str | None = None) -> None:
    """One line that is never folded, so that paths and commands can be copied."""
    console.print(Text(text), style=style, soft_wrap=True)  # as it is: an arm called "a:b" is not an emoji


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]], *, left: int = 1) -> Table:
    """A plain table; the first `left` columns are text, the others numbers."""
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for i, name in enumerate(columns):
        grid.add_column(name, justify="left" if i < left else "right", no_wrap=i == 0)
    for row in rows:
        grid.add_row(*(Text(item if isinstance(item, str) else number(item)) for item in row))
    return grid


def number(value: Any) -> str:
    """Four digits where that says enough."""
    if isinstance(value, bool | str) or value is None:
        return "–" if value is None else str(value).lower() if isinstance(value, bool) else value
    if isinstance(value, dict):
        return ", ".join(f"{key} {number(item)}" for key, item in value.items())
    if isinstance(value, list | tuple) or np.ndim(value):
        return ", ".join(number(item) for item in value)
    if isinstance(value, int | np.integer):
        return str(value)
    return f"{value:.3f}" if 0.01 <= abs(value) < 1e5 or value == 0 else f"{value:.3g}"


def short(count: float) -> str:
    """1234567 as 1.2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}" if count < 10 * size else f"{count / size:.0f}{letter}"
    return f"{count:.0f}"
