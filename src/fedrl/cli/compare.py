"""`fedrl compare`: final returns of several runs with 95 % confidence intervals."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedrl.cli import output, run_files
from fedrl.plots import bars, files
from fedrl.records.environment_name import EnvironmentName

METHOD = "95 %, Student's t over seeds"


class Final(NamedTuple):
    run: str
    arm: str
    mean: float
    half: float | None  # half the width of the interval; None for a single seed
    seeds: int
    environment: str  # as panels are called


def compare(paths: list[Path], out: Path | None, *, as_json: bool) -> None:
    target = files.target(out, paths, "final")
    named = list(zip(paths, run_files.names(paths), strict=True))
    returns_of = {(path, name, arm): it for path, name in named for arm, it in run_files.finals(path).items()}
    panel_of = panel_names({(name, arm): run_files.environment(path, arm) for path, name, arm in returns_of})
    finals = [
        Final(name, arm, float(returns.mean()), half_width(returns), len(returns), panel_of[name, arm])
        for (_, name, arm), returns in returns_of.items()
    ]
    panels = {
        panel: {(it.run, it.arm): (it.mean, it.half) for it in finals if it.environment == panel}
        for panel in dict.fromkeys(it.environment for it in finals)
    }
    figure = bars.draw(panels, target, title=f"Final return ({METHOD})")
    if as_json:
        arms = [{**it._asdict(), "low": it.mean - (it.half or 0), "high": it.mean + (it.half or 0)} for it in finals]
        for row in arms:
            row |= {} if row["half"] is not None else {"low": None, "high": None}
        output.emit({"interval": METHOD, "arms": arms, "figure": figure})
        return
    console = output.screen()
    columns = ("run", "arm", "final return", "95 % interval", "seeds")
    for panel, members in panels.items():
        rows = [(it.run, it.arm, it.mean, interval(it), it.seeds) for it in finals if (it.run, it.arm) in members]
        if len(panels) > 1:
            output.say(console, panel, "bold")
        console.print(output.table(columns, rows, left=2))
        if len(panels) > 1:
            output.say(console)
    if len(panels) > 1:
        output.say(console, "Returns of different environments cannot be compared; each has its own axis.", "dim")
    output.say(console, f"\nIntervals: {METHOD}; a single seed has none.", "dim")
    output.say(console, f"figure   {figure}")


def panel_names(where: dict[tuple[str, str], EnvironmentName]) -> dict[tuple[str, str], str]:
    """The panel of each arm of each run: one per environment, with the runs in its name if another has the same."""
    names = {it.identity: it.name for it in where.values()}
    runs = {key: list(dict.fromkeys(run for (run, _), it in where.items() if it.identity == key)) for key in names}
    taken = list(names.values())
    called = {
        key: name if taken.count(name) == 1 else f"{name} ({', '.join(runs[key])})" for key, name in names.items()
    }
    unique = {key: name if list(called.values()).count(name) == 1 else f"{name} {number}"
              for number, (key, name) in enumerate(called.items(), 1)}  # fmt: skip
    return {arm: unique[it.identity] for arm, it in where.items()}


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
