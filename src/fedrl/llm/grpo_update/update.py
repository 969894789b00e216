"""One GRPO update: from groups of episodes to better parameters (Shao et al. 2024; for many turns, Feng et al. 2025)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from fedrl.arguments import above, at_least, at_most, checked_class
from fedrl.llm.episodes import Episode
from fedrl.llm.grpo_update.advantages import by_anchor, discounted_returns, group_relative
from fedrl.llm.grpo_update.loss import grpo_loss
from fedrl.llm.grpo_update.report import decision_metrics, loss_terms
from fedrl.llm.likelihood import Sample, likelihood
from fedrl.llm.models.frozen_prefix import FrozenPrefix
from fedrl.llm.models.model import Model, Theta, reference_parameters
from fedrl.llm.optimization import Optimizer, descend, minibatches
from fedrl.llm.packing import batches


@checked_class
@dataclass(frozen=True)
class Grpo:
    """The settings, with the defaults of the paper's released configuration where it has one."""

    reward: str = "success"  # "success": 10 for a task that is won, else 0; "score": 10 times the environment's score
    invalid: float = 0.1  # subtracted from the score of a step whose action is not well-formed
    by_step: bool = True  # mean and deviation of a group over all its steps; else over its episodes
    scaled: bool = True  # divide by the deviation
    step_weight: float = 0.0  # weight of GiGPO's step-level advantages; 1 is usual
    gamma: float = 0.95  # discount of those
    clip: float = 0.2
    dual_clip: float = 3.0
    beta: float = 0.01  # coefficient of the KL to the reference model
    entropy_bonus: float = 0.001
    epochs: int = 1  # passes over the episodes
    minibatch: int = 16  # texts: episodes, or with a window steps (64 of them, as released)
    at_once: int = 2048  # tokens that are read at a time: more need more memory, and save time only on a GPU

    def __post_init__(self) -> None:
        if self.reward not in ("success", "score"):
            raise ValueError(f'reward is "success" or "score", got {self.reward!r}')
        at_least(1, epochs=self.epochs, minibatch=self.minibatch, at_once=self.at_once)
        at_least(
            0, invalid=self.invalid, step_weight=self.step_weight, beta=self.beta, entropy_bonus=self.entropy_bonus
        )
        above(0, "0.2 is usual", clip=self.clip)
        above(1, "3 is usual", dual_clip=self.dual_clip)
        above(0, gamma=self.gamma)
        at_most(1, gamma=self.gamma)


class UpdateResult(NamedTuple):
    theta: Theta
    state: Any  # of the optimiser
    loss: float
    report: dict[str, float]  # means over the decisions learnt from (`decision_metrics`)


def reward_of(episode: Episode, settings: Grpo) -> float:
    return 10.0 * (float(episode.won) if settings.reward == "success" else episode.score)


def advantages(episodes: Sequence[Episode], groups: Sequence[int], settings: Grpo) -> list[np.ndarray]:
    """Advantages of all steps of every episode. An invalid action is penalised at its own step only, as released."""
    rewards = [reward_of(episode, settings) for episode in episodes]
    penalties = [[settings.invalid * (not turn.valid) for turn in episode.turns] for episode in episodes]
    scores = [[reward - p for p in row] for reward, row in zip(rewards, penalties, strict=True)]
    values = group_relative(scores, groups, by_step=settings.by_step, scaled=settings.scaled)
    if settings.step_weight:
        returns = [
            discounted_returns(reward, len(row), settings.gamma) - np.array(row)
            for reward, row in zip(rewards, penalties, strict=True)
        ]
        anchors = [[turn.observation for turn in episode.turns] for episode in episodes]
        steps = by_anchor(returns, anchors, groups, scaled=settings.scaled)
        values = [a + settings.step_weight * b for a, b in zip(values, steps, strict=True)]
    return values


def improve(
    model: Model,
    theta: Theta,
    state: Any,
    first: Theta | None,
    episodes: Sequence[Episode],
    groups: Sequence[int],
    settings: Grpo,
    optimizer: Optimizer,
    shuffle: np.random.Generator,
    temperature: float = 1.0,
) -> UpdateResult:
    """Passes over the episodes whose steps have an advantage, minibatch by minibatch. `first` is the reference's theta.

    Episodes of a group share a minibatch unless it is full, so that their common prefix is read once.
    """
    advantages_by_episode = advantages(episodes, groups, settings)
    useful = [
        (sample, row[sample.steps], group)
        for episode, row, group in zip(episodes, advantages_by_episode, groups, strict=True)
        if row.any()
        for sample in episode.samples()
        if sample.decisions
    ]
    if not useful:
        return UpdateResult(theta, state, 0.0, decision_metrics([], reference=False))
    references: dict[int, torch.Tensor] = {}
    losses, terms_by_part = [], []
    for rows in minibatches([group for _, _, group in useful], settings.epochs, settings.minibatch, shuffle):
        parts = [[rows[i] for i in part] for part in batches([useful[i][0].tokens for i in rows], settings.at_once)]
        weight = 1.0 / sum(len(useful[i][0].decisions) for i in rows)

        def loss(part: list[int], weight: float = weight) -> torch.Tensor:
            """The share of this part of the minibatch in the mean over all its decisions."""
            samples, prefix = [useful[i][0] for i in part], FrozenPrefix(model)
            if settings.beta and not references.keys() >= set(part):
                references.update(
                    zip(part, _reference_log_probs(model, samples, first, temperature, prefix), strict=True)
                )
            current = likelihood(model, samples, temperature, prefix=prefix)
            device = current.log_prob.device
            terms = grpo_loss(
                current.log_prob,
                _tensor([d.log_prob for sample in samples for d in sample.decisions], device),
                _tensor(np.concatenate([useful[i][1] for i in part]), device),
                reference=torch.cat([references[i] for i in part]) if settings.beta else None,
                entropy=current.entropy,
                clip=settings.clip,
                dual_clip=settings.dual_clip,
                beta=settings.beta,
                entropy_bonus=settings.entropy_bonus,
            )
            terms_by_part.append((len(current.log_prob), loss_terms(terms)))
            return weight * len(current.log_prob) * terms.loss

        theta, state, value = descend(model, theta, state, optimizer, *(partial(loss, part) for part in parts))
        losses.append(value)
    return UpdateResult(
        theta, state, float(np.mean(losses)), decision_metrics(terms_by_part, reference=settings.beta > 0)
    )


def _tensor(values: Any, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32, device=device)


@torch.no_grad()
def _reference_log_probs(
    model: Model, samples: Sequence[Sample], first: Theta | None, temperature: float, prefix: FrozenPrefix
) -> Sequence[torch.Tensor]:
    """Log-probabilities of each sample's decisions under the reference model."""
    with reference_parameters(model, first):
        log_prob = likelihood(model, samples, temperature, prefix=prefix).log_prob
    parts: Sequence[torch.Tensor] = log_prob.split([len(sample.decisions) for sample in samples])
    return parts
