"""Demonstrations: transcripts whose decisions lead to the commands given, and what imitating them does."""

import numpy as np
import pytest
import torch
from support.tiny_agents import TAKING, Colours, as_jax, formatter, tiny, uniform

from fedrl.llm.episodes import Acting, play
from fedrl.llm.imitation import demonstration_sample, imitate
from fedrl.llm.likelihood import likelihood
from fedrl.llm.models.model import load_theta, theta_of
from fedrl.llm.trie import Trie

torch.set_num_threads(1)
FORMATTER = formatter()
PLANS = {0: ["look around", TAKING[0]], 1: ["wait", "look around", TAKING[1]], 2: [TAKING[2]]}


def samples():
    return [demonstration_sample(FORMATTER, Colours, task, plan) for task, plan in PLANS.items()]


def test_transcripts():
    for (task, plan), sample in zip(PLANS.items(), samples(), strict=True):
        with Colours() as env:
            seen, _ = env.reset(options={"task": task})
            text = ""
            for command in plan:
                text += f"<world> {seen} <agent> {command} <end>"
                seen = env.step(command)[0]
        assert sample.tokens == FORMATTER.tokens(text)
        assert all(sample.tokens[d.position] == d.chosen for d in sample.decisions)
        assert all(d.chosen in d.choices and len(d.choices) > 1 for d in sample.decisions)


def test_decisions_reproduce_the_commands():
    """Whoever goes from node to node and decides as demonstrated, says what was demonstrated."""
    for (task, plan), sample in zip(PLANS.items(), samples(), strict=True):
        decisions = iter(sample.decisions)
        with Colours() as env:
            _, info = env.reset(options={"task": task})
            for command in plan:
                tokens, node = Trie.of(FORMATTER.command(text) for text in info["admissible_commands"]).forced()
                while node.branches:
                    decision = next(decisions)
                    assert decision.choices == node.choices
                    forced, node = node.branches[decision.chosen].forced()
                    tokens += [decision.chosen, *forced]
                assert tokens == FORMATTER.command(command)
                info = env.step(command)[4]
        assert next(decisions, None) is None
    counts = [len(sample.decisions) for sample in samples()]
    assert counts == [2, 2, 2]  # looking after waiting is the only thing to do, and many words are forced


def test_a_command_that_is_not_admissible_is_named():
    with pytest.raises(ValueError, match="task 1: the demonstrated command 'take the moon' is not admissible"):
        demonstration_sample(FORMATTER, Colours, 1, ["take the moon"])


def test_what_comes_after_the_end_is_left_out():
    assert demonstration_sample(FORMATTER, Colours, 2, [TAKING[2], "wait"]) == samples()[2]


@pytest.mark.parametrize("language", [0.0, 0.5])
def test_imitation_makes_demonstrations_likelier(language):
    model, seen = tiny(), []
    theta = as_jax(theta_of(model))

    def likely() -> float:
        with torch.no_grad():
            return float(likelihood(model, samples()).log_prob.mean())

    before = likely()
    learnt = imitate(
        model, theta, samples(), passes=15, learning_rate=1e-2, shuffle=np.random.default_rng(0), language=language,
        minibatch=2,
        callback=lambda step, steps, loss: seen.append((step, steps, loss)),
    )  # fmt: skip
    load_theta(model, learnt)
    assert likely() > before + 0.5
    assert [step for step, _, _ in seen] == list(range(1, 31))
    assert {steps for _, steps, _ in seen} == {30}
    assert seen[-1][2] < seen[0][2]
    again = imitate(
        model,
        theta,
        samples(),
        passes=15,
        learning_rate=1e-2,
        shuffle=np.random.default_rng(0),
        language=language,
        minibatch=2,
    )
    assert all(np.asarray(again[name]).tobytes() == np.asarray(learnt[name]).tobytes() for name in learnt)
    if not language:
        found = play(model, FORMATTER, Colours, [0, 1, 2], 1, uniform(0, 3), Acting(temperature=0.0))
        assert [[turn.action for turn in episode.turns] for episode in found] == list(PLANS.values())


def test_without_passes_nothing_is_learnt():
    model = tiny()
    theta = as_jax(theta_of(model))
    assert imitate(model, theta, samples(), passes=0, learning_rate=1.0, shuffle=np.random.default_rng(0)) is theta
