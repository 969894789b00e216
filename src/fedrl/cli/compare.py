"""`fedrl compare`: final returns of several runs with 95 % confidence intervals."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedrl.cli import output, run_files
from fedrl.plots import bars, files

METHOD = "95 %, Student's t over seeds"


class Final(NamedTuple):
    run: str
    arm: str
    mean: float
    half: float | None  # half the width of the interval; None for a single seed
    seeds: int


def compare(paths: list[Path], out: Path | None, *, as_json: bool) -> None:
    target = files.target(out, paths, "final")
    finals = [
        Final(name, arm, float(returns.mean()), half_width(returns), len(returns))
        for path, name in zip(paths, run_files.names(paths), strict=True)
        for arm, returns in run_files.finals(path).items()
    ]
    figure = bars.draw(
        {(it.run, it.arm): (it.mean, it.half) for it in finals}, target, title=f"Final return ({METHOD})"
    )
    if as_json:
        arms = [{**it._asdict(), "low": it.mean - (it.half or 0), "high": it.mean + (it.half or 0)} for it in finals]
        for row in arms:
            row |= {} if row["half"] is not None else {"low": None, "high": None}
        output.emit({"interval": METHOD, "arms": arms, "figure": figure})
        return
    console = output.screen()
    rows = [(it.run, it.arm, it.mean, interval(it), it.seeds) for it in finals]
    console.print(output.table(("run", "arm", "final return", "95 % interval", "seeds"), rows, left=2))
    output.say(console, f"\nIntervals: {METHOD}; a single seed has none.", "dim")
    output.say(console, f"figure   {figure}")


def interval(final: Final) -> str:
    if final.half is None:
        return "–"
    return f"{output.number(final.mean - final.half)} to {output.number(final.mean + final.half)}"


def half_width(returns: np.ndarray) -> float | None:
    count = len(returns)
    return float(t_quantile(count - 1) * returns.std(ddof=1) / math.sqrt(count)) if count > 1 else None


def t_quantile(freedom: int, share: float = 0.975) -> float:
    """Student's t, by bisection of its distribution function, an integral over angles: x = sqrt(freedom) tan(angle)."""
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)

    def below(x: float) -> float:
        angle = np.linspace(0.0, math.atan(x / math.sqrt(freedom)), 2001)
        return 0.5 + factor * float(np.trapezoid(np.cos(angle) ** (freedom - 1), angle))

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < share else (low, middle)
    return high
