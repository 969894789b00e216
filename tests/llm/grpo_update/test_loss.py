"""GRPO's loss by hand, term by term, and its slope against finite differences."""

import math

import pytest
import torch

from fedrl.llm.grpo_update.loss import grpo_loss

torch.set_num_threads(1)


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def gain(ratio: float, advantage: float) -> float:
    """Of one decision, with the usual clipping and nothing else."""
    return grpo_loss(doubles(math.log(ratio)), doubles(0.0), doubles(advantage), beta=0.0).gain.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "wanted"),
    [
        (1.0, 2.0, 2.0),
        (1.1, 2.0, 2.2),  # within
        (1.5, 2.0, 2.4),  # above: cut at 1.2
        (0.5, 2.0, 1.0),  # below, but the way up stays open
        (0.5, -2.0, -1.6),  # below: cut at 0.8
        (1.5, -2.0, -3.0),  # above, and the way down stays open
        (5.0, -2.0, -6.0),  # so far above that the dual clip holds it at 3 A
        (5.0, 0.0, 0.0),
    ],
)
def test_clipping(ratio, advantage, wanted):
    assert gain(ratio, advantage) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.1, 1, True), (1.5, 1, False), (0.5, 1, True), (0.5, -1, False), (1.5, -1, True), (5.0, -1, False)],
)
def test_what_is_cut_has_no_slope(ratio, advantage, moves):
    log_prob = doubles(math.log(ratio)).requires_grad_()
    grpo_loss(log_prob, doubles(0.0), doubles(advantage), beta=0.0).loss.backward()
    assert (log_prob.grad.item() != 0.0) == moves


def test_means_over_decisions():
    """Two decisions, a reference and entropies; everything by hand."""
    log_prob, old = doubles(math.log(0.5), math.log(0.6)), doubles(math.log(0.5), math.log(0.3))
    reference, entropy, advantage = doubles(math.log(0.25), math.log(0.6)), doubles(0.7, 0.1), doubles(1.0, 1.0)
    found = grpo_loss(
        log_prob, old, advantage, reference=reference, entropy=entropy, clip=0.2, beta=0.01, entropy_bonus=0.1
    )
    kl = (0.5 - math.log(0.5) - 1.0) / 2  # k3 with d = log(0.25 / 0.5); the other decision is as the reference has it
    assert found.gain.item() == pytest.approx((1.0 + 1.2) / 2)
    assert found.kl.item() == pytest.approx(kl)
    assert found.entropy.item() == pytest.approx(0.4)
    assert found.clipped.item() == 0.5
    assert found.ratio.item() == pytest.approx(1.5)
    assert found.loss.item() == pytest.approx(-1.1 + 0.01 * kl - 0.1 * 0.4)


def test_k3_is_never_negative_and_zero_where_policies_agree():
    for x in (-3.0, -0.1, 0.0, 0.1, 3.0):
        kl = grpo_loss(doubles(x), doubles(x), doubles(0.0), reference=doubles(0.0)).kl.item()
        assert (kl > 0.004) if x else (kl == 0.0)


def test_slope_against_finite_differences():
    """A policy over two tokens, its logit the parameter, in double precision; ratios inside and outside of the clip."""
    chosen, old = torch.tensor([0, 1, 0, 1, 0]), doubles(-0.4, -0.9, -0.1, -0.2, -2.5)
    advantage, reference = doubles(1.0, -1.0, 0.5, -2.0, -1.5), doubles(-0.5, -0.9, -0.3, -1.2, -0.6)

    def loss(logit: torch.Tensor) -> torch.Tensor:
        log_p = torch.log_softmax(torch.stack([logit, torch.zeros_like(logit)]), 0)
        entropy = -(log_p.exp() * log_p).sum().expand(5)
        return grpo_loss(
            log_p[chosen], old, advantage, reference=reference, entropy=entropy, beta=0.3, entropy_bonus=0.2
        ).loss

    for start in (-1.3, -0.2, 0.35, 1.1):
        logit = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(loss(logit), logit)
        step = 1e-6
        with torch.no_grad():
            wanted = (loss(logit + step) - loss(logit - step)) / (2 * step)
        assert slope.item() == pytest.approx(wanted.item(), rel=1e-6, abs=1e-8)
