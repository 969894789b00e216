"""One GRPO update: groups of episodes in, better parameters out (Shao et al. 2024; for many turns, Feng et al. 2025)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from fedrl.agents.descent import Optimiser, descend, minibatches
from fedrl.agents.episodes import Episode
from fedrl.agents.grpo.advantages import by_anchor, discounted, group_relative
from fedrl.agents.grpo.loss import grpo_loss
from fedrl.agents.likelihood import Sample, likelihood
from fedrl.agents.models.model import Model, Theta, as_it_came


@dataclass(frozen=True)
class Grpo:
    """The settings, with the defaults of the paper's released configuration where it has one."""

    reward: str = "success"  # "success": 10 for a task that is won, else 0; "score": 10 times the environment's score
    invalid: float = 0.1  # taken off the score of a step whose action is not well-formed
    by_step: bool = True  # mean and deviation of a group over all its steps; else over its episodes
    scaled: bool = True  # divide by the deviation
    step_weight: float = 0.0  # of GiGPO's advantages by step; 1 is usual
    gamma: float = 0.95  # of those
    clip: float = 0.2
    dual_clip: float = 3.0
    beta: float = 0.01  # of the KL to the model as it came
    entropy_bonus: float = 0.001
    epochs: int = 1  # passes over the episodes
    minibatch: int = 16  # episodes

    def __post_init__(self) -> None:
        if self.reward not in ("success", "score"):
            raise ValueError(f'reward is "success" or "score", got {self.reward!r}')
        if self.epochs < 1 or self.minibatch < 1:
            raise ValueError(f"epochs and minibatch must be at least 1, got {self.epochs} and {self.minibatch}")


class Learnt(NamedTuple):
    theta: Theta
    state: Any  # of the optimiser
    loss: float


def reward_of(episode: Episode, settings: Grpo) -> float:
    return 10.0 * (float(episode.won) if settings.reward == "success" else episode.score)


def advantages(episodes: Sequence[Episode], groups: Sequence[int], settings: Grpo) -> list[np.ndarray]:
    """Of every step of every episode. What an invalid action costs counts at its own step only, as released."""
    earned = [reward_of(episode, settings) for episode in episodes]
    penalties = [[settings.invalid * (not turn.valid) for turn in episode.turns] for episode in episodes]
    scores = [[reward - p for p in row] for reward, row in zip(earned, penalties, strict=True)]
    found = group_relative(scores, groups, by_step=settings.by_step, scaled=settings.scaled)
    if settings.step_weight:
        returns = [
            discounted(reward, len(row), settings.gamma) - np.array(row)
            for reward, row in zip(earned, penalties, strict=True)
        ]
        anchors = [[turn.seen for turn in episode.turns] for episode in episodes]
        steps = by_anchor(returns, anchors, groups, scaled=settings.scaled)
        found = [a + settings.step_weight * b for a, b in zip(found, steps, strict=True)]
    return found


def improve(
    model: Model,
    theta: Theta,
    state: Any,
    first: Theta | None,
    episodes: Sequence[Episode],
    groups: Sequence[int],
    settings: Grpo,
    optimiser: Optimiser,
    shuffle: np.random.Generator,
    temperature: float = 1.0,
) -> Learnt:
    """Passes over the episodes whose steps have an advantage, minibatch by minibatch. `first` is the reference's theta."""
    known = advantages(episodes, groups, settings)
    useful = [
        (Sample(episode.tokens, [d for _, d in made]), np.array([row[t] for t, _ in made]))
        for episode, row in zip(episodes, known, strict=True)
        if (made := episode.decisions) and row.any()
    ]
    if not useful:
        return Learnt(theta, state, 0.0)
    references = _references(model, [sample for sample, _ in useful], first, temperature) if settings.beta else None
    losses = []
    for rows in minibatches(len(useful), settings.epochs, settings.minibatch, shuffle):
        samples = [useful[i][0] for i in rows]
        old = _tensor([d.log_prob for sample in samples for d in sample.decisions])
        advantage = _tensor(np.concatenate([useful[i][1] for i in rows]))
        reference = torch.cat([references[i] for i in rows]) if references else None

        def loss(samples=samples, old=old, advantage=advantage, reference=reference) -> torch.Tensor:
            now = likelihood(model, samples, temperature)
            return grpo_loss(
                now.log_prob,
                old.to(now.log_prob.device),
                advantage.to(now.log_prob.device),
                reference=reference,
                entropy=now.entropy,
                clip=settings.clip,
                dual_clip=settings.dual_clip,
                beta=settings.beta,
                entropy_bonus=settings.entropy_bonus,
            ).loss

        theta, state, value = descend(model, theta, state, optimiser, loss)
        losses.append(value)
    return Learnt(theta, state, float(np.mean(losses)))


def _tensor(values: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


@torch.no_grad()
def _references(model: Model, samples: Sequence[Sample], first: Theta | None, temperature: float) -> list[torch.Tensor]:
    with as_it_came(model, first):
        return [likelihood(model, [sample], temperature).log_prob for sample in samples]
