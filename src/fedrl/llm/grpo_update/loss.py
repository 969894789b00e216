"""GRPO's loss on the decisions of agents, as a function of tensors only."""

from typing import NamedTuple

import torch
from torch import Tensor


class Terms(NamedTuple):
    """The terms of the loss; means over decisions."""

    loss: Tensor
    gain: Tensor  # the clipped objective
    kl: Tensor  # to the reference
    entropy: Tensor
    clipped: Tensor  # share of decisions whose ratio is cut
    ratio: Tensor


def grpo_loss(
    log_prob: Tensor,
    old: Tensor,
    advantage: Tensor,
    *,
    reference: Tensor | None = None,
    entropy: Tensor | None = None,
    clip: float = 0.2,
    dual_clip: float = 3.0,
    beta: float = 0.01,
    entropy_bonus: float = 0.0,
) -> Terms:
    """All arguments are [n], one entry per decision: log pi_theta, log pi_old, A, log pi_ref, entropy of pi_theta.

    The objective of a decision is min(rho A, clip(rho) A), and at least `dual_clip` A if A < 0, minus beta times the
    low-variance estimate of KL(pi_theta || pi_ref), exp(d) - d - 1 with d = log pi_ref - log pi_theta; plus the entropy
    bonus.
    """
    rho = torch.exp(log_prob - old)
    within = rho.clamp(1.0 - clip, 1.0 + clip)
    gain = torch.minimum(rho * advantage, within * advantage)
    gain = torch.where(advantage < 0, torch.maximum(gain, dual_clip * advantage), gain)
    loss, zero = -gain.mean(), log_prob.new_zeros(())
    kl = zero
    if reference is not None:
        d = reference - log_prob
        kl = (torch.exp(d) - d - 1.0).mean()
        loss = loss + beta * kl
    mean_entropy = zero if entropy is None else entropy.mean()
    loss = loss - entropy_bonus * mean_entropy
    clipped = (rho * advantage > within * advantage).to(log_prob.dtype).mean()
    return Terms(loss, gain.mean(), kl, mean_entropy, clipped, rho.mean())
