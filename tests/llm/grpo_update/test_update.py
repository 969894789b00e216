"""One GRPO update of a real (tiny) model."""

import itertools
import math

import jax
import numpy as np
import pytest
import torch
from support.tiny_agents import Colours, as_jax, formatter, tiny, uniform

from fedrl import trees
from fedrl.llm.decoding import Decision
from fedrl.llm.episodes import Acting, Episode, Turn, play
from fedrl.llm.grpo_update import update as updating
from fedrl.llm.grpo_update.loss import grpo_loss
from fedrl.llm.grpo_update.update import Grpo, improve
from fedrl.llm.likelihood import Sample, likelihood
from fedrl.llm.models.frozen_prefix import FrozenPrefix
from fedrl.llm.models.model import Lora, load_theta, theta_of
from fedrl.llm.optimization import Optimizer, adamw, minibatches

torch.set_num_threads(1)
LORA = Lora(rank=2, alpha=4)
SETTINGS = Grpo(reward="score", step_weight=1.0, minibatch=100)
OPENING = formatter().first("find the red thing", [])


def bandit(model, choices: list[int]) -> list[Episode]:
    """Episodes of one decision after a common opening; the first of the choices wins."""
    decisions = [Decision(len(OPENING), sorted(choices), token, 0.0) for token in choices]
    samples = [Sample([*OPENING, token], [d]) for token, d in zip(choices, decisions, strict=True)]
    with torch.no_grad():
        now = likelihood(model, samples).log_prob.tolist()
    return [
        Episode(0, "any", [[*OPENING, token]], [Turn("", "", "", True, 0.0, (d._replace(log_prob=p),))], 0.0, i == 0)
        for i, (token, d, p) in enumerate(zip(choices, decisions, now, strict=True))
    ]


def one_update(model, theta, episodes, groups, settings=Grpo(), learning_rate=1e-2):
    optimizer = adamw(learning_rate)
    first = None if model.lora else theta_of(model)
    shuffle = np.random.default_rng(0)
    return improve(model, theta, optimizer.init(theta), first, episodes, groups, settings, optimizer, shuffle)


@pytest.mark.parametrize("lora", [None, LORA])
def test_a_rewarded_action_becomes_likelier(lora):
    model = tiny(lora=lora)
    theta = as_jax(theta_of(model))
    episodes = bandit(model, [8, 7, 9])
    learnt = one_update(model, theta, episodes, [0, 0, 0], learning_rate=1e-2 if lora else 1e-3)
    load_theta(model, learnt.theta)
    before = [e.turns[0].decisions[0].log_prob for e in episodes]
    after = [d.log_prob for e in bandit(model, [8, 7, 9]) for d in e.turns[0].decisions]
    assert after[0] > before[0] + 0.01
    assert math.isfinite(learnt.loss)
    assert any(not np.array_equal(theta[name], learnt.theta[name]) for name in model.names)


@pytest.mark.parametrize("lora", [None, LORA])
def test_groups_without_spread_leave_everything_as_it_was(lora):
    model = tiny(lora=lora)
    theta, before = as_jax(theta_of(model)), theta_of(model)
    episodes = [episode._replace(won=False) for episode in bandit(model, [8, 7, 9])]
    learnt = one_update(model, theta, episodes, [0, 0, 0])
    assert learnt.loss == 0.0
    for name, value in theta_of(model).items():
        assert value.tobytes() == before[name].tobytes() == np.asarray(learnt.theta[name]).tobytes()
    counts = [x for x in jax.tree.leaves(learnt.state) if x.ndim == 0]
    assert all(int(x) == 0 for x in counts)


def test_a_group_without_spread_does_not_change_what_another_teaches():
    model = tiny()
    theta = as_jax(theta_of(model))
    useful = bandit(model, [8, 7, 9])
    useless = [episode._replace(won=True) for episode in bandit(model, [10, 11])]
    alone = one_update(model, theta, useful, [0, 0, 0]).theta
    together = one_update(model, theta, [*useless, *useful], [1, 1, 0, 0, 0]).theta
    for name in model.names:
        assert np.asarray(alone[name]).tobytes() == np.asarray(together[name]).tobytes()


@pytest.mark.parametrize("lora", [None, LORA])
def test_the_reference_agrees_at_the_start(lora):
    """Adapters off is as adapters whose second factor is zero; the first parameters are as they came."""
    model = tiny(lora=lora)
    samples = [Sample(e.tokens, [d for _, d in e.decisions]) for e in bandit(model, [8, 7, 9])]
    first = theta_of(model)
    reference = torch.cat(updating._reference_log_probs(model, samples, first, 1.0, FrozenPrefix(model)))
    assert not reference.requires_grad
    now = likelihood(model, samples).log_prob
    assert now.requires_grad
    kl = grpo_loss(now, now.detach(), torch.ones(3), reference=reference).kl.item()
    assert kl == pytest.approx(0.0, abs=1e-10)
    moved = {name: value + 0.1 for name, value in first.items()}
    load_theta(model, moved)
    now = likelihood(model, samples).log_prob
    again = torch.cat(updating._reference_log_probs(model, samples, first, 1.0, FrozenPrefix(model)))
    torch.testing.assert_close(again, reference)
    assert grpo_loss(now, now.detach(), torch.ones(3), reference=again).kl.item() > 1e-6
    assert all(np.array_equal(value, moved[name]) for name, value in theta_of(model).items())


@pytest.mark.parametrize("passes", [1, 2])
def test_frozen_layers_and_references_are_computed_once(passes, monkeypatch):
    """For each text, however many passes there are; and the update is to the bit the one that computes them again."""
    model = tiny(lora=Lora(rank=2, alpha=4, layers=1))
    theta = as_jax({name: value + 0.1 for name, value in theta_of(model).items()})
    episodes, settings = (
        play(model, formatter(), Colours, [0, 1], 4, uniform(0, 8)),
        Grpo("score", epochs=passes, beta=1.0),
    )
    read = []
    with model.net.base_model.layers[0].self_attn.register_forward_hook(lambda *_: read.append(0)):
        found = one_update(model, theta, episodes, [0] * 4 + [1] * 4, settings)
        assert len(read) == passes
        monkeypatch.setattr(updating, "FrozenPrefix", lambda model: None)
        again = one_update(model, theta, episodes, [0] * 4 + [1] * 4, settings)
        assert len(read) == passes + passes + 1
    assert found.loss == again.loss
    assert all(np.array_equal(found.theta[name], again.theta[name]) for name in model.names)
    assert any(np.abs(found.theta[name] - theta[name]).max() > 1e-3 for name in model.names)


@pytest.mark.parametrize("window", [None, 1])
def test_an_update_does_not_depend_on_how_much_is_read_at_a_time(window):
    """The parts of a minibatch add up to the mean over all its decisions."""
    model = tiny()
    theta = as_jax(theta_of(model))
    seen = play(model, formatter(), Colours, [0, 1], 4, uniform(0, 8), Acting(window=window))
    found = []
    for at_once in (1, 60, 4096):
        optimizer = Optimizer(
            lambda theta: (), lambda theta, by, state: (trees.subtract(theta, trees.scale(0.1, by)), state)
        )
        known = Grpo(reward="score", at_once=at_once, minibatch=5, beta=0.1)
        found.append(
            updating.improve(
                model, theta, optimizer.init(theta), theta, seen, [0] * 4 + [1] * 4, known, optimizer,
                np.random.default_rng(0),
            )
        )  # fmt: skip
    for other in found[1:]:
        assert other.loss == pytest.approx(found[0].loss, abs=1e-5)
        for name in model.names:
            np.testing.assert_allclose(other.theta[name], found[0].theta[name], atol=1e-6)
    assert any(np.abs(found[0].theta[name] - theta[name]).max() > 1e-3 for name in model.names)


def test_the_first_step_is_taken_at_ratio_one(monkeypatch):
    """Episodes that were really played: what decoding said of them is what learning computes, so the ratio is one."""
    model = tiny()
    episodes = play(model, formatter(), Colours, [0, 1], 4, uniform(0, 8))
    terms = []

    def watched(*given, **settings):
        terms.append(grpo_loss(*given, **settings))
        return terms[-1]

    monkeypatch.setattr(updating, "grpo_loss", watched)
    one_update(model, as_jax(theta_of(model)), episodes, [0] * 4 + [1] * 4, SETTINGS)
    (only,) = terms
    assert only.ratio.item() == pytest.approx(1.0, abs=1e-5)
    assert only.clipped.item() == 0.0
    assert only.kl.item() == pytest.approx(0.0, abs=1e-9)


def test_the_loss_weighs_every_decision_alike(monkeypatch):
    """An episode's advantage reaches each of its decisions, those of its turn's own."""
    model = tiny()
    episodes = play(model, formatter(), Colours, [0, 1], 4, uniform(0, 8))
    given = []

    def watched(log_prob, old, advantage, **settings):
        given.append((old, advantage))
        return grpo_loss(log_prob, old, advantage, **settings)

    monkeypatch.setattr(updating, "grpo_loss", watched)
    groups = [0] * 4 + [1] * 4
    one_update(model, as_jax(theta_of(model)), episodes, groups, SETTINGS)
    ((old, advantage),) = given
    known = updating.advantages(episodes, groups, SETTINGS)
    wanted = [(d.log_prob, a[t]) for e, a in zip(episodes, known, strict=True) if a.any() for t, d in e.decisions]
    assert len(wanted) > len(episodes)
    np.testing.assert_allclose(
        sorted(zip(old.tolist(), advantage.tolist(), strict=True)), sorted(wanted), rtol=1e-6, atol=1e-6
    )


def test_minibatches_go_through_all_samples_each_pass():
    found = list(minibatches(range(5), 2, 2, np.random.default_rng(0)))
    assert [len(rows) for rows in found] == [2, 2, 1, 2, 2, 1]
    first, second = ([i for rows in part for i in rows] for part in (found[:3], found[3:]))
    assert sorted(first) == sorted(second) == [0, 1, 2, 3, 4]
    assert first != second


def test_minibatches_keep_groups_together():
    groups = [7, 3, 7, 3, 9, 9, 9, 3]
    orders = set()
    for rows in minibatches(groups, 40, 8, np.random.default_rng(0)):
        assert sorted(rows) == list(range(8))
        named = [groups[i] for i in rows]
        assert [group for group, _ in itertools.groupby(named)] == list(dict.fromkeys(named))
        orders.add(tuple(dict.fromkeys(named)))
    assert len(orders) == 6


def test_the_step_size_is_checked():
    with pytest.raises(ValueError, match="the step size must be positive, got 0"):
        adamw(0.0)
