"""What the recipes of FedAgent say of their arms: by success on held-out tasks; seeds are shared between the arms."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Claim, Outcome
from fedrl.plots import curves
from fedrl.recipes.fedagent._config import Config

CLOSE = 0.05  # in success: what is called similar, or insensitive
AXES = ("local epochs", "success on held-out tasks")


def start(outcome: Outcome) -> np.ndarray:
    """Success of each seed before the first round: what imitation alone gives."""
    success: np.ndarray = outcome.curve()[1][0]
    return success


def above(text: str, one: np.ndarray, other: np.ndarray) -> Claim:
    """By 3 standard errors, within a seed."""
    return _claim(f"{text}, by 3 SE", one, other, judge.sign)


def near(text: str, one: np.ndarray, other: np.ndarray) -> Claim:
    """The difference within a seed lies within `CLOSE`, and so do 3 standard errors around it."""
    return _claim(f"{text}, within {CLOSE:.2f} by 3 SE", one, other, partial(judge.inside, low=-CLOSE, high=CLOSE))


def not_below(text: str, one: np.ndarray, other: np.ndarray) -> Claim:
    """It is not more than `CLOSE` below, by 3 standard errors within a seed."""
    return _claim(
        f"{text}, by {CLOSE:.2f} at most (3 SE)", one, other, lambda gap, error: judge.sign(gap + CLOSE, error)
    )


def within_noise(text: str, one: np.ndarray, other: np.ndarray) -> Claim:
    """It is not below by more than 3 standard errors within a seed; one seed has none."""

    def decide(gap: float, error: float) -> str:
        if math.isnan(error):
            return judge.UNDECIDED
        return judge.FAILS if gap < -judge.ERRORS * error else judge.HOLDS

    return _claim(f"{text}: within 3 SE, or above", one, other, decide)


def _claim(text: str, one: np.ndarray, other: np.ndarray, decide: Callable[[float, float], str]) -> Claim:
    """About the difference of two arms [seeds], which `decide` is given with its standard error."""
    gap, error = judge.mean_se(one - other)
    numbers = {"gap": gap, "se": error, "one": one.mean(), "other": other.mean(), "seeds": one.size}
    return Claim(text, decide(gap, error), numbers)


def draw(config: Config, arms: dict[str, Outcome], path: Path, title: str, per_round: dict[str, int]) -> Path:
    """Success against local epochs, of which each arm has so many in a round (where not the config's)."""
    rows_of = {name: outcome.rows for name, outcome in arms.items()}
    epochs = {name: per_round.get(name, config.local_epochs) for name in arms}
    return curves.draw(rows_of, path, title=title, per_round=epochs, words=AXES)


def table(arms: dict[str, Outcome], path: Path) -> Path:
    """Percent at the start and at the end, over seeds: success by type of task and overall, and the score."""
    first = next(iter(arms.values())).rows[0]
    types = [key for key in first if key.startswith("success/") and not key.endswith("_by_seed")]
    names = {key: key.removeprefix("success/") for key in types} | {"return": "all", "score": "score"}
    lines = [f"| {' | '.join(['', *names.values()])} |", f"| --- |{' ---: |' * len(names)}"]
    rows = {"before training": first} | {name: outcome.rows[-1] for name, outcome in arms.items()}
    for arm, row in rows.items():
        cells = [_cell(np.asarray(row.get(f"{key}_by_seed", [row[key]]), float)) for key in names]
        lines.append(f"| {' | '.join([arm, *cells])} |")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def _cell(values: np.ndarray) -> str:
    mean, error = judge.mean_se(100 * values)
    return f"{mean:.1f}" if math.isnan(error) else f"{mean:.1f} ± {error:.1f}"
