"""Verdicts by the rule that the recipes state, written out again: what a tiny run says must follow from its own numbers."""

import math

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


def decided(gap: float | None, error: float | None) -> str:
    """A difference counts beyond three standard errors; JSON says null where there is no number."""
    if gap is None or error is None or math.isnan(gap) or math.isnan(error) or abs(gap) <= 3 * error:
        return UNDECIDED
    return HOLDS if gap > 0 else FAILS


def worst(verdicts: list[str]) -> str:
    """Of claims that must all hold."""
    return FAILS if FAILS in verdicts else UNDECIDED if UNDECIDED in verdicts else HOLDS
