"""Metrics of a GRPO learner: those of its episodes, and those of the decisions it learnt from."""

import math
from collections.abc import Sequence

import numpy as np

from fedrl.llm.episodes import Episode
from fedrl.llm.grpo_update.loss import Terms

EPISODE_METRICS = ("reward", "success", "valid_share", "answer_length", "episode_length")
DECISION_METRICS = ("policy_loss", "kl", "clip_share", "entropy")


def episode_metrics(episodes: Sequence[Episode], rewards: Sequence[float]) -> dict[str, float]:
    """Means over episodes: reward (as GRPO counts it), success, episode_length in turns; over turns: valid_share, the share
    of well-formed actions, and answer_length, the decisions in an answer.

    In a free answer every token is a decision; among commands, only tokens with an alternative are.
    """
    turns = [turn for episode in episodes for turn in episode.turns]
    return {
        "reward": float(np.mean(rewards)),
        "success": float(np.mean([episode.won for episode in episodes])),
        "valid_share": float(np.mean([turn.valid for turn in turns])),
        "answer_length": float(np.mean([len(turn.decisions) for turn in turns])),
        "episode_length": len(turns) / len(episodes),
    }


def loss_terms(terms: Terms) -> tuple[float, ...]:
    """The values that `decision_metrics` averages, for one part of a minibatch."""
    return tuple(float(term.detach()) for term in (-terms.gain, terms.kl, terms.clipped, terms.entropy))


def decision_metrics(parts: Sequence[tuple[int, tuple[float, ...]]], *, reference: bool) -> dict[str, float]:
    """Means over all decisions of every pass, each computed before the gradient step that used it.

    `parts` are pairs: a number of decisions, and the means over them (`loss_terms`). All are NaN, which is not logged, if
    there are no decisions; so is `kl` without a reference.
    """
    if not parts:
        return dict.fromkeys(DECISION_METRICS, math.nan)
    means = np.average([values for _, values in parts], axis=0, weights=[count for count, _ in parts])
    metrics = dict(zip(DECISION_METRICS, means.tolist(), strict=True))
    return metrics if reference else metrics | {"kl": math.nan}
