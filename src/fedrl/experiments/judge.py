"""How a claim is decided: by three standard errors, and undecided within them."""

import math
from collections.abc import Iterable

import numpy as np

ERRORS = 3.0  # a difference counts if it is larger than this many standard errors
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


def mean_se(values: np.ndarray) -> tuple[float, float]:
    """Mean over seeds and its standard error, which one seed does not give."""
    error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
    return float(values.mean()), float(error)


def difference(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """Mean of `above` minus mean of `below`, each [seeds], and the standard error of that."""
    (a, a_error), (b, b_error) = mean_se(above), mean_se(below)
    return a - b, math.hypot(a_error, b_error)


def sign(gap: float, error: float) -> str:
    """Is `gap` positive? Undecided within three standard errors of zero, or where there is no standard error."""
    if gap > ERRORS * error:
        return HOLDS
    return FAILS if gap < -ERRORS * error else UNDECIDED


def inside(value: float, error: float, low: float, high: float) -> str:
    """Does `value` lie in [low, high]? Undecided if three standard errors reach across an end."""
    least, most = value - ERRORS * error, value + ERRORS * error
    if low <= least and most <= high:
        return HOLDS
    return FAILS if most < low or least > high else UNDECIDED


def every(verdicts: Iterable[str]) -> str:
    """All must hold; one that does not settles it."""
    found = set(verdicts)
    return next((verdict for verdict in (FAILS, UNDECIDED) if verdict in found), HOLDS if found else UNDECIDED)


def some(verdicts: Iterable[str]) -> str:
    """One that holds settles it; it fails if all do."""
    found = set(verdicts)
    return next((verdict for verdict in (HOLDS, UNDECIDED) if verdict in found), FAILS if found else UNDECIDED)
