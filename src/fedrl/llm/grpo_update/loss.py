"""GRPO's loss on the decisions of agents, as a function of tensors only."""

from typing import NamedTuple

import torch
from torch import Tensor


class Terms(NamedTuple):
    """What the loss is made of; means over decisions."""

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
    """All [n], one entry a decision: log pi_theta, log pi_old, A, log pi_ref, entropy of pi_theta.

    Of each decision min(rho A, clip(rho) A), and at least `dual_clip` A where A < 0; minus beta times the low-variance
    estimate of KL(pi_theta || pi_ref), exp(d) - d - 1 with d = log pi_ref - log pi_theta; plus the entropy bonus.
    """
    rho = torch.exp(log_prob - old)
    within = rho.clamp(1.0 - clip, 1.0 + clip)
    gain = torch.minimum(rho * advantage, within * advantage)
    gain = torch.where(advantage < 0, torch.maximum(gain, dual_clip * advantage), gain)
    loss, nothing = -gain.mean(), log_prob.new_zeros(())
    kl = nothing
    if reference is not None:
        d = reference - log_prob
        kl = (torch.exp(d) - d - 1.0).mean()
        loss = loss + beta * kl
    unsure = nothing if entropy is None else entropy.mean()
    loss = loss - entropy_bonus * unsure
    cut = (rho * advantage > within * advantage).to(log_prob.dtype).mean()
    return Terms(loss, gain.mean(), kl, unsure, cut, rho.mean())
