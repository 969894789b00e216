"""Where a figure of one or several runs goes."""

from collections.abc import Sequence
from pathlib import Path

FORMATS = (".png", ".svg", ".pdf")
MOST_NAMES = 3


def target(out: Path | None, runs: Sequence[Path], kind: str) -> Path:
    """`out`, or a file named after the runs beside them: runs/figures/a+b-curves.png; for one run, inside it."""
    if out is not None:
        if out.suffix.lower() not in FORMATS:
            raise ValueError(f"a figure needs a name that ends in {', '.join(FORMATS)}, got {out}; try {out}.png")
        return out
    if len(runs) == 1:
        return runs[0] / "figures" / f"{kind}.png"
    names = [run.resolve().name for run in runs]
    more = f"+{len(names) - MOST_NAMES}-more" if len(names) > MOST_NAMES else ""
    return runs[0].parent / "figures" / f"{'+'.join(names[:MOST_NAMES])}{more}-{kind}.png"
