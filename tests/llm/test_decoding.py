"""Decoding: only admissible commands, with exactly the probabilities that learning computes again afterwards."""

import numpy as np
import pytest
import torch
from support.tiny_agents import formatter, tiny

from fedrl.llm import reader as reading
from fedrl.llm.decoding import Answer, choose_commands, generate_answers
from fedrl.llm.likelihood import Sample, likelihood
from fedrl.llm.reader import Reader
from fedrl.llm.trie import Trie

torch.set_num_threads(1)
MODEL, FORMATTER = tiny(), formatter()
TEXTS = [
    ["take the red ball", "take the blue box", "take the green ball", "look around", "wait"],
    ["wait"],
    ["take the red ball", "take the red box"],
]
COMMANDS = [[FORMATTER.command(text) for text in row] for row in TEXTS]
OPENINGS = [FORMATTER.first(seen, []) for seen in ("find the red thing", "find a ball", "you see a blue box")]


def opened(openings=OPENINGS, times: int = 1) -> Reader:
    reader = Reader(MODEL.net)
    reader.read(openings)
    reader.repeat(times)
    return reader


def check(openings: list[list[int]], said: list[Answer], temperature: float) -> None:
    """Positions, tokens, and the log-probabilities against those of reading the finished texts at once."""
    samples = [Sample([*o, *s.tokens], s.decisions) for o, s in zip(openings, said, strict=True)]
    for sample in samples:
        for decision in sample.decisions:
            assert sample.tokens[decision.position] == decision.chosen
            assert decision.choices is None or (
                decision.chosen in decision.choices and decision.choices == sorted(decision.choices)
            )
    decided = [sample for sample in samples if sample.decisions]
    then = [d.log_prob for sample in decided for d in sample.decisions]
    with torch.no_grad():
        now = likelihood(MODEL, decided, temperature).log_prob.numpy()
    np.testing.assert_allclose(np.exp(now - then), 1.0, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.4, 0.0])
def test_among_says_commands_and_knows_their_probability(temperature):
    for seed in range(10):
        reader = opened()
        said = choose_commands(
            reader, COMMANDS, [len(o) for o in OPENINGS], np.random.default_rng(seed).random((3, 8)), temperature
        )
        for row, one in zip(COMMANDS, said, strict=True):
            assert one.tokens == row[one.command]
        assert not said[1].decisions
        check(OPENINGS, said, temperature)


def exact(opening: list[int], commands: list[list[int]]) -> np.ndarray:
    """The probability of each command: a product over the nodes on its way, each text read from its beginning."""

    def of(command: list[int]) -> float:
        node, text, total = Trie.of(commands), list(opening), 0.0
        for token in command:
            if len(node.branches) > 1:
                reader = Reader(MODEL.net)
                with torch.no_grad():
                    logits = reading.scores(MODEL.net, reader.read([text]), [node.choices])
                total += float(torch.log_softmax(logits, -1)[0, node.choices.index(token)])
            text.append(token)
            node = node.branches[token]
        return float(np.exp(total))

    return np.array([of(command) for command in commands])


def test_frequencies_follow_the_probabilities():
    n, wanted = 2000, exact(OPENINGS[0], COMMANDS[0])
    assert wanted.sum() == pytest.approx(1.0, abs=1e-5)
    reader = opened(OPENINGS[:1], n)
    noise = np.random.default_rng(0).random((n, 8))
    said = choose_commands(reader, COMMANDS[:1] * n, [len(OPENINGS[0])] * n, noise, 1.0)
    counts = np.bincount([one.command for one in said], minlength=5)
    assert (wanted * n > 5).all()
    chi_squared = float(((counts - n * wanted) ** 2 / (n * wanted)).sum())
    assert chi_squared < 18.5  # of 4 degrees of freedom: exceeded once in a thousand
    for number in range(5):
        one = next(one for one in said if one.command == number)
        assert np.exp(sum(d.log_prob for d in one.decisions)) == pytest.approx(wanted[number], rel=1e-4)


def test_temperature_zero_takes_the_likeliest_at_every_node():
    (said,) = choose_commands(opened(OPENINGS[:1]), COMMANDS[:1], [len(OPENINGS[0])], np.array([[0.999999]]), 0.0)
    for decision in said.decisions:
        with torch.no_grad():
            text = [*OPENINGS[0], *said.tokens][: decision.position]
            logits = reading.scores(MODEL.net, Reader(MODEL.net).read([text]), [decision.choices])
        assert decision.choices[int(logits.argmax())] == decision.chosen


@pytest.mark.parametrize("noise", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_interval_are_still_choices(noise):
    """Rows with fewer choices than others are filled up; the largest uniform number must not land there."""
    said = choose_commands(opened(), COMMANDS, [len(o) for o in OPENINGS], np.full((3, 4), noise), 1.0)
    ends = [min if noise == 0.0 else max] * 3
    for end, one in zip(ends, said, strict=True):
        assert all(d.chosen == end(d.choices) for d in one.decisions)


def test_the_cache_has_read_what_was_said():
    reader = opened()
    said = choose_commands(reader, COMMANDS, [len(o) for o in OPENINGS], np.random.default_rng(4).random((3, 8)), 1.0)
    again = Reader(MODEL.net).read([[*o, *s.tokens] for o, s in zip(OPENINGS, said, strict=True)])
    torch.testing.assert_close(reader.hidden, again, atol=1e-5, rtol=1e-5)


def test_freely_up_to_the_end_or_the_most():
    n, most = 60, 6
    reader = opened(OPENINGS[:1], n)
    openings = [OPENINGS[0]] * n
    said = generate_answers(
        reader, FORMATTER.end, [len(o) for o in openings], np.random.default_rng(1).random((n, most)), 1.0, most
    )
    ended = [one for one in said if len(one.decisions) < most or one.decisions[-1].chosen == FORMATTER.end]
    cut = [one for one in said if one not in ended]
    assert ended
    assert cut
    for one in said:
        assert one.tokens[-1] == FORMATTER.end
        assert one.tokens.count(FORMATTER.end) == 1
        assert one.command == -1
    assert all(len(one.tokens) == len(one.decisions) <= most for one in ended)
    assert all(len(one.decisions) == most and len(one.tokens) == most + 1 for one in cut)  # the mark is no decision
    check(openings, said, 1.0)
    again = Reader(MODEL.net).read([[*o, *s.tokens] for o, s in zip(openings, said, strict=True)])
    torch.testing.assert_close(reader.hidden, again, atol=1e-5, rtol=1e-5)


def test_freely_wants_noise_for_every_token():
    with pytest.raises(ValueError, match="6 tokens need as many uniform numbers per row, got 4"):
        generate_answers(opened(OPENINGS[:1]), FORMATTER.end, [3], np.zeros((1, 4)), 1.0, 6)


def test_entropy_is_of_what_could_be_chosen():
    (said,) = choose_commands(opened(OPENINGS[:1]), COMMANDS[:1], [len(OPENINGS[0])], np.full((1, 4), 0.1), 1.0)
    sample = Sample([*OPENINGS[0], *said.tokens], said.decisions)
    found = likelihood(MODEL, [sample])
    for decision, entropy in zip(said.decisions, found.entropy.tolist(), strict=True):
        hidden = Reader(MODEL.net).read([sample.tokens[: decision.position]])
        p = torch.softmax(reading.scores(MODEL.net, hidden, [decision.choices])[0].detach(), -1).numpy()
        assert entropy == pytest.approx(-(p * np.log(p)).sum(), rel=1e-4)


def test_decisions_of_two_kinds_are_not_mixed():
    (free,) = generate_answers(opened(OPENINGS[:1]), FORMATTER.end, [len(OPENINGS[0])], np.zeros((1, 2)), 1.0, 2)
    (one,) = choose_commands(opened(OPENINGS[:1]), COMMANDS[:1], [len(OPENINGS[0])], np.zeros((1, 4)), 1.0)
    samples = [Sample([*OPENINGS[0], *said.tokens], said.decisions) for said in (free, one)]
    with pytest.raises(ValueError, match="decode all episodes of a batch in one way"):
        likelihood(MODEL, samples)
