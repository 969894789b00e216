"""Where a figure of one or several runs goes."""

from collections.abc import Sequence
from pathlib import Path

from fedrl.records.run_toml import run_of_arm

FORMATS = (".png", ".svg", ".pdf")
MOST_NAMES = 3


def target(out: Path | None, runs: Sequence[Path], kind: str) -> Path:
    """`out`, or a file named after the runs beside them: runs/figures/a+b-curves.png; for one run, inside it.

    For arms of a recipe's run it is in that run's folder: a folder beside them would look like another arm.
    """
    if out is not None:
        if out.suffix.lower() not in FORMATS:
            raise ValueError(f"a figure needs a name that ends in {', '.join(FORMATS)}, got {out}; try {out}.png")
        return out
    if len(runs) == 1:
        return runs[0] / "figures" / f"{kind}.png"
    names = [run.resolve().name for run in runs]
    more = f"+{len(names) - MOST_NAMES}-more" if len(names) > MOST_NAMES else ""
    beside = run_of_arm(runs[0]) or runs[0].parent
    return beside / "figures" / f"{'+'.join(names[:MOST_NAMES])}{more}-{kind}.png"
