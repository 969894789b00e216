"""What carries loss: the decisions of agents, and neither observations, forced tokens nor other rows."""

import numpy as np
import pytest
import torch
from support.tiny_agents import formatter, tiny

from fedrl.llm.decoding import Decision
from fedrl.llm.likelihood import Sample, likelihood

torch.set_num_threads(1)
MODEL = tiny(dtype=torch.float64)


def sample(tokens: list[int], *at: int) -> Sample:
    return Sample(tokens, [Decision(i, [tokens[i] - 1, tokens[i], tokens[i] + 1], tokens[i], 0.0) for i in at])


ONE, OTHER = sample([4, 9, 7, 8, 6, 10, 5], 3, 5), sample([12, 11, 10, 6], 2)


def gradient(value: torch.Tensor) -> torch.Tensor:
    MODEL.net.zero_grad(set_to_none=True)
    value.backward()
    return torch.cat([p.grad.flatten() for p in MODEL.net.parameters() if p.grad is not None])


def test_rows_do_not_meet():
    """Together or alone, a sample's decisions are as likely; and the slope of one's loss has nothing of the other."""
    both = likelihood(MODEL, [ONE, OTHER]).log_prob
    first, second = (likelihood(MODEL, [one]).log_prob for one in (ONE, OTHER))
    torch.testing.assert_close(both, torch.cat([first, second]))
    torch.testing.assert_close(gradient(both[:2].sum()), gradient(first.sum()))


def test_only_what_comes_before_the_last_decision_is_read():
    later = ONE._replace(tokens=[*ONE.tokens[:6], 17, 18])
    assert torch.equal(likelihood(MODEL, [later]).log_prob, likelihood(MODEL, [ONE]).log_prob)


def test_tokens_that_nobody_decided_have_no_label():
    """Another observation token changes what later decisions are read after, but adds no term of its own."""
    total = likelihood(MODEL, [ONE]).log_prob.sum()
    terms = [likelihood(MODEL, [ONE._replace(decisions=[d])]).log_prob.sum() for d in ONE.decisions]
    torch.testing.assert_close(total, sum(terms))
    changed = ONE._replace(tokens=[*ONE.tokens[:4], 19, *ONE.tokens[5:]])  # between the two decisions
    before, after = (likelihood(MODEL, [one]).log_prob for one in (ONE, changed))
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_language_is_the_mean_of_all_tokens_read():
    found = likelihood(MODEL, [ONE, OTHER], language=True).language.item()
    terms = []
    for tokens in (ONE.tokens[:5], OTHER.tokens[:2]):
        with torch.no_grad():
            log_p = torch.log_softmax(MODEL.net(input_ids=torch.tensor([tokens])).logits[0], -1)
        terms += [float(log_p[i, token]) for i, token in enumerate(tokens[1:])]
    assert found == pytest.approx(np.mean(terms))
    assert likelihood(MODEL, [ONE]).language == 0.0


def test_temperature():
    model, words = tiny(), formatter().tokens("find the red")
    one = Sample([*words, 8], [Decision(3, [8, 9], 8, 0.0)])
    with torch.no_grad():
        logits = model.net(input_ids=torch.tensor([words])).logits[0, -1, [8, 9]]
    for temperature in (0.4, 1.0, 0.0):
        wanted = torch.log_softmax(logits / (temperature or 1.0), -1)[0]
        torch.testing.assert_close(likelihood(model, [one], temperature).log_prob[0].detach(), wanted)
