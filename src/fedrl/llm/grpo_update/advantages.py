"""Advantages relative to a group of episodes of one task (GRPO, Shao et al. 2024), and by step (GiGPO, Feng et al. 2025)."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

TINY = 1e-6  # as released


def group_relative(
    scores: Sequence[Sequence[float]], groups: Sequence[Hashable], *, by_step: bool = True, scaled: bool = True
) -> list[np.ndarray]:
    """(score - mean) / (deviation + 1e-6) within each group; `scores[i]` are the scores of the steps of episode i.

    A step's score is its episode's reward minus the penalty for an invalid action at that step. `by_step` takes mean and
    deviation over all steps of the group, so that long episodes weigh more (as released); otherwise over episodes, each
    represented by the mean of its scores. `scaled=False` leaves the division out. If all scores of a group are equal, its
    advantages are zero.
    """
    rows = [np.asarray(row, np.float64) for row in scores]
    members = defaultdict(list)
    for episode, group in enumerate(groups):
        members[group].append(episode)
    advantages = [np.zeros(row.shape) for row in rows]
    for episodes in members.values():
        values = (
            np.concatenate([rows[i] for i in episodes]) if by_step else np.array([rows[i].mean() for i in episodes])
        )
        spread = values.std(ddof=1) if values.size > 1 else 0.0
        if spread < TINY:
            continue
        for i in episodes:
            advantages[i] = (rows[i] - values.mean()) / (spread + TINY if scaled else 1.0)
    return advantages


def by_anchor(
    returns: Sequence[Sequence[float] | np.ndarray],
    anchors: Sequence[Sequence[Hashable]],
    groups: Sequence[Hashable],
    *,
    scaled: bool = True,
) -> list[np.ndarray]:
    """Step-level advantages of GiGPO: steps of one group taken from the same observation (`anchors`) are compared.

    The values compared are the discounted returns from each step on, `returns[i][t]`. A step without another one to compare
    with has advantage zero.
    """
    places = defaultdict(list)
    for episode, (group, row) in enumerate(zip(groups, anchors, strict=True)):
        for step, anchor in enumerate(row):
            places[group, anchor].append((episode, step))
    advantages = [np.zeros(len(row)) for row in returns]
    for steps in places.values():
        values = np.array([returns[i][t] for i, t in steps])
        spread = values.std(ddof=1) if values.size > 1 else 0.0
        if spread < TINY:
            continue
        for (i, t), value in zip(steps, values, strict=True):
            advantages[i][t] = (value - values.mean()) / (spread + TINY if scaled else 1.0)
    return advantages


def discounted_returns(last: float, steps: int, gamma: float) -> np.ndarray:
    """The return from every step on, if only the last of the `steps` has a reward, `last`."""
    return last * gamma ** np.arange(steps - 1, -1, -1.0)
