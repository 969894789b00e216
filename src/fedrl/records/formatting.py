"""Numbers and lines as a terminal shows them."""

from typing import Any

import numpy as np
from rich.console import Console


def say(console: Console, text: str = "", style: str | None = None) -> None:
    """One line that is never folded, so that paths and commands can be copied."""
    console.print(text, style=style, soft_wrap=True)


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
