"""What a GRPO learner reports: of the episodes it played, and of the decisions it learnt from."""

import math
from collections.abc import Sequence

import numpy as np

from fedrl.llm.episodes import Episode
from fedrl.llm.grpo.loss import Terms

PLAYED = ("reward", "success", "valid_share", "answer_length", "episode_length")
LEARNT = ("policy_loss", "kl", "clip_share", "entropy")


def of_episodes(episodes: Sequence[Episode], rewards: Sequence[float]) -> dict[str, float]:
    """Means over episodes: reward (as GRPO counts it), success, episode_length in turns; over turns: valid_share, the share
    of well-formed actions, and answer_length, the decisions in an answer.

    Where agents speak freely every token is a decision; where they choose among commands, only those that were not forced.
    """
    turns = [turn for episode in episodes for turn in episode.turns]
    return {
        "reward": float(np.mean(rewards)),
        "success": float(np.mean([episode.won for episode in episodes])),
        "valid_share": float(np.mean([turn.valid for turn in turns])),
        "answer_length": float(np.mean([len(turn.decisions) for turn in turns])),
        "episode_length": len(turns) / len(episodes),
    }


def numbers(terms: Terms) -> tuple[float, ...]:
    """What `of_decisions` reports of one part of a minibatch."""
    return tuple(float(term.detach()) for term in (-terms.gain, terms.kl, terms.clipped, terms.entropy))


def of_decisions(parts: Sequence[tuple[int, tuple[float, ...]]], *, reference: bool) -> dict[str, float]:
    """Means over all decisions learnt from, in every pass once, each before the step it took part in.

    `parts` are pairs: of how many decisions, and the means over them (`numbers`). NaN, that is not reported, where nothing
    was learnt from; so is `kl` without a reference.
    """
    if not parts:
        return dict.fromkeys(LEARNT, math.nan)
    means = np.average([values for _, values in parts], axis=0, weights=[count for count, _ in parts])
    found = dict(zip(LEARNT, means.tolist(), strict=True))
    return found if reference else found | {"kl": math.nan}
