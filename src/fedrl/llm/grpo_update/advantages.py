"""Advantages relative to a group of episodes of one task (GRPO, Shao et al. 2024), and by step (GiGPO, Feng et al. 2025)."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

TINY = 1e-6  # as released


def group_relative(
    scores: Sequence[Sequence[float]], groups: Sequence[Hashable], *, by_step: bool = True, scaled: bool = True
) -> list[np.ndarray]:
    """(score - mean) / (deviation + 1e-6) within each group; `scores[i]` are those of the steps of episode i.

    A step's score is its episode's reward, less what an invalid action at that step costs. `by_step` takes mean and
    deviation over all steps of the group, so that long episodes weigh more (as released); else over episodes, each counted
    once by the mean of its scores. `scaled=False` leaves the division out. A group whose scores are all alike teaches
    nothing: zero.
    """
    rows = [np.asarray(row, np.float64) for row in scores]
    members = defaultdict(list)
    for episode, group in enumerate(groups):
        members[group].append(episode)
    found = [np.zeros(row.shape) for row in rows]
    for episodes in members.values():
        known = np.concatenate([rows[i] for i in episodes]) if by_step else np.array([rows[i].mean() for i in episodes])
        spread = known.std(ddof=1) if known.size > 1 else 0.0
        if spread < TINY:
            continue
        for i in episodes:
            found[i] = (rows[i] - known.mean()) / (spread + TINY if scaled else 1.0)
    return found


def by_anchor(
    returns: Sequence[Sequence[float] | np.ndarray],
    anchors: Sequence[Sequence[Hashable]],
    groups: Sequence[Hashable],
    *,
    scaled: bool = True,
) -> list[np.ndarray]:
    """Step-level advantages of GiGPO: steps of one group taken from the same observation (`anchors`) are compared.

    What is compared is the discounted return from the step on, `returns[i][t]`. A step that can be compared with no other
    teaches nothing: zero.
    """
    places = defaultdict(list)
    for episode, (group, row) in enumerate(zip(groups, anchors, strict=True)):
        for step, anchor in enumerate(row):
            places[group, anchor].append((episode, step))
    found = [np.zeros(len(row)) for row in returns]
    for steps in places.values():
        known = np.array([returns[i][t] for i, t in steps])
        spread = known.std(ddof=1) if known.size > 1 else 0.0
        if spread < TINY:
            continue
        for (i, t), value in zip(steps, known, strict=True):
            found[i][t] = (value - known.mean()) / (spread + TINY if scaled else 1.0)
    return found


def discounted_returns(last: float, steps: int, gamma: float) -> np.ndarray:
    """Of every step the return from it on, where only the last of the `steps` earns anything."""
    return last * gamma ** np.arange(steps - 1, -1, -1.0)
