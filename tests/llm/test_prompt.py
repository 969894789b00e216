"""The history window: of every step a text of its own, played and learnt from as exactly as a transcript."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_agents import SMALL, TAKING, Colours, as_jax, uniform
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fedrl.llm.context import POCKET, PromptFormatter
from fedrl.llm.decoding import Decision
from fedrl.llm.episodes import Acting, Episode, draw_noise, play
from fedrl.llm.grpo_update import update as updating
from fedrl.llm.grpo_update.loss import grpo_loss
from fedrl.llm.grpo_update.update import Grpo, improve
from fedrl.llm.imitation import demonstration, demonstration_sample, imitate
from fedrl.llm.likelihood import Sample, likelihood
from fedrl.llm.models.model import Model, load_theta, make_trainable, theta_of
from fedrl.llm.models.pocket import AGENT, END, WORLD, untrained, wrapped
from fedrl.llm.optimization import adamw
from fedrl.llm.parsing import DEMAND
from fedrl.llm.prompt import prompt

torch.set_num_threads(1)
TAGS = ["<think>", "</think>", "<action>", "</action>"]
SPOKEN = prompt("find take the red blue green ball box nothing happens", [("a thing", "look around wait")], "", 1)
ANSWER = "<think> look </think> <action> look around </action>"
TASKS, GROUP = [0, 4, 1], 4
OPTIONS = "You can: take the red ball, take the blue box, take the green ball, look around, wait"


def words() -> PreTrainedTokenizerFast:
    """All that is told here is words or marks of this vocabulary."""
    pieces = pre_tokenizers.Whitespace()
    texts = (SPOKEN, OPTIONS, DEMAND, "1 2 3 4 5 done you see")
    spelt = {piece for text in texts for piece, _ in pieces.pre_tokenize_str(text)}
    vocabulary = {word: i for i, word in enumerate(["<unknown>", END, AGENT, WORLD, *sorted(spelt)])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    made.pre_tokenizer = pieces
    made.add_tokens(TAGS)
    return wrapped(made)


FORMATTER = PromptFormatter(words(), POCKET._replace(shows_commands=True))


def model() -> Model:
    net = untrained(len(FORMATTER.tokenizer), SMALL)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.12)
    return make_trainable(net, FORMATTER.tokenizer, None)


MODEL = model()


def played(acting: Acting, make=Colours, tasks=TASKS) -> list[Episode]:
    noise = draw_noise(np.random.default_rng(0), len(tasks) * GROUP, acting)
    return play(MODEL, FORMATTER, make, tasks, GROUP, noise, acting)


def test_the_first_prompt_is_what_is_seen():
    assert prompt("find it", [], "You must find it.", 2) == "You must find it."
    assert prompt("find it", [], "You see a box.", 2) == "Your task: find it\nYou see a box."
    assert prompt("a", [], "a", 2, options="You can: go", demand="Answer.") == "a\nYou can: go\nAnswer."


def test_later_prompts_have_the_parts_of_the_papers():
    past = [("a hall", "go on"), ("a room", "look"), ("a box", "open box")]
    assert prompt("find it", past, "a ball", 2, options="You can: take ball", demand="Answer.") == (
        "Your task: find it\nSteps taken so far: 3. The last of them:\n"
        "At step 2 you saw: a room\nand your action was: look\n"
        "At step 3 you saw: a box\nand your action was: open box\n"
        "Now, at step 4, you see:\na ball\nYou can: take ball\nAnswer."
    )
    assert prompt("find it", past, "a ball", 0) == (
        "Your task: find it\nSteps taken so far: 3.\nNow, at step 4, you see:\na ball"
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("xy"), st.text("xy")), max_size=6), st.integers(0, 8))
def test_a_window_shows_the_last_steps(past, window):
    told = prompt("task", past, "now", window)
    assert told.count("At step") == min(window, len(past))
    assert told == prompt("task", past[:], "now", min(window, len(past)))
    for number, (seen, done) in list(enumerate(past, 1))[max(0, len(past) - window) :]:
        assert f"At step {number} you saw: {seen}\nand your action was: {done}\n" in told


def test_a_hand_made_episode_of_two_steps():
    """Texts, where decisions are in them, and what they were between."""
    episode = demonstration(FORMATTER, Colours, 1, ["look around", TAKING[1]], window=1)
    first = FORMATTER.tokens(f"<world> find the blue thing\n{OPTIONS}<agent>")
    second = FORMATTER.tokens(
        "<world> Your task: find the blue thing\nSteps taken so far: 1. The last of them:\n"
        "At step 1 you saw: find the blue thing\nand your action was: look around\n"
        "Now, at step 2, you see:\nyou see a blue thing\n"
        "You can: take the red ball, take the blue box, take the green ball<agent>"
    )
    assert 0 not in [*first, *second]  # no unknown word
    looking, taking = FORMATTER.tokens("look around <end>"), FORMATTER.tokens("take the blue box <end>")
    assert episode.texts == [[*first, *looking], [*second, *taking]]
    start = sorted(FORMATTER.tokens("take look wait"))
    colours = sorted(FORMATTER.tokens("red blue green"))
    assert [turn.decisions for turn in episode.turns] == [
        (Decision(len(first), start, looking[0], 0.0),),
        (Decision(len(second) + 2, colours, taking[2], 0.0),),  # "take the" is forced
    ]
    assert episode.samples() == [
        Sample(text, list(turn.decisions), [t])
        for t, (text, turn) in enumerate(zip(episode.texts, episode.turns, strict=True))
    ]
    assert episode.won


def test_a_transcript_is_one_sample():
    plan = ["look around", TAKING[1]]
    (sample,) = demonstration(FORMATTER, Colours, 1, plan).samples()
    assert sample == demonstration_sample(FORMATTER, Colours, 1, plan)
    assert sample.steps == [0, 1]
    with pytest.raises(ValueError, match="task 1: a demonstration needs at least one command"):
        demonstration(FORMATTER, Colours, 1, [])


@pytest.mark.parametrize("decode", ["commands", "free"])
@pytest.mark.parametrize("window", [0, 1, 2])
def test_texts_are_plain_encodings_of_their_prompts(decode, window):
    for episode in played(Acting(decode, most_tokens=5, window=window)):
        assert len(episode.texts) == len(episode.turns)
        goal, past, steps = episode.turns[0].observation, [], len(episode.turns)
        with Colours() as env:
            _, info = env.reset(options={"task": episode.task})
            for text, turn in zip(episode.texts, episode.turns, strict=True):
                options = f"You can: {', '.join(info['admissible_commands'])}"
                demand = DEMAND if decode == "free" else ""
                asked = prompt(goal, past, turn.observation, window, options=options, demand=demand)
                opening = FORMATTER.tokens(f"<world> {asked}<agent>")
                assert text[: len(opening)] == opening
                assert text[-1] == FORMATTER.end
                if decode == "commands":
                    assert text[len(opening) :] == FORMATTER.command(turn.answer)
                else:
                    assert [d.position for d in turn.decisions] == list(
                        range(len(opening), len(opening) + len(turn.decisions))
                    )
                past.append((turn.observation, turn.action))
                info = env.step(turn.action)[4]
        assert steps == len(past)


@pytest.mark.parametrize("decode", ["commands", "free"])
@pytest.mark.parametrize(("window", "temperature"), [(0, 1.0), (2, 1.0), (2, 0.4), (9, 1.0)])
def test_decisions_are_where_they_say_and_as_likely_as_they_say(decode, window, temperature):
    episodes = played(Acting(decode, temperature, most_tokens=5, window=window))
    assert len({len(episode.turns) for episode in episodes}) > 1 or decode == "free"
    samples = [sample for episode in episodes for sample in episode.samples() if sample.decisions]
    assert len(samples) > len(episodes)
    assert all(s.tokens[d.position] == d.chosen for s in samples for d in s.decisions)
    with torch.no_grad():
        now = likelihood(MODEL, samples, temperature).log_prob.numpy()
    np.testing.assert_allclose(now, [d.log_prob for s in samples for d in s.decisions], atol=1e-5)


def test_same_noise_same_bytes_whoever_plays_beside():
    acting = Acting(window=2)
    everyone = play(MODEL, FORMATTER, Colours, TASKS, GROUP, uniform(0, 12), acting)
    assert everyone == play(MODEL, FORMATTER, Colours, TASKS, GROUP, uniform(0, 12), acting)
    assert everyone != play(MODEL, FORMATTER, Colours, TASKS, GROUP, uniform(1, 12), acting)
    alone = play(MODEL, FORMATTER, Colours, TASKS[:1], GROUP, lambda step: uniform(0, 12)(step)[:GROUP], acting)
    assert [episode.texts for episode in alone] == [episode.texts for episode in everyone[:GROUP]]
    greedy = played(Acting(temperature=0.0, window=2))
    assert all(one.texts == greedy[i - i % GROUP].texts for i, one in enumerate(greedy))


def test_what_a_group_has_in_common_is_read_once():
    """Where all take the likeliest, a group's prompts are the same at every step: one is read for all of them."""
    shapes: list[tuple[int, int]] = []
    hook = MODEL.net.base_model.register_forward_pre_hook(
        lambda module, args, given: shapes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    episodes = played(Acting("free", temperature=0.0, most_tokens=2, window=1))
    hook.remove()
    prompts = [rows for rows, width in shapes if width > 2]  # answers are read token by token, the last with its end
    told = {episode.turns[0].observation for episode in episodes}
    assert prompts == [len(told)] * len(episodes[0].turns)
    assert len(told) < len(TASKS)  # two of which are told alike


def test_one_step_is_the_same_however_it_is_told():
    """To the bit: the first prompt among commands is the opening of the transcript."""
    once = played(Acting(), lambda: Colours(max_episode_steps=1))
    assert played(Acting(window=9), lambda: Colours(max_episode_steps=1)) == once
    assert [one.turns[0] for one in played(Acting(window=0))] == [one.turns[0] for one in played(Acting())]


def test_a_window_as_long_as_the_episode_shows_all():
    some, most, all_of_them = (played(Acting("free", most_tokens=3, window=window)) for window in (2, 3, 1000))
    assert most == all_of_them  # of four steps the last looks back on three
    assert [one.texts[:3] for one in some] == [one.texts[:3] for one in most]
    assert [one.texts[3] for one in some] != [one.texts[3] for one in most]


@pytest.mark.parametrize("decode", ["commands", "free"])
def test_longest_cuts(decode):
    whole = played(Acting(decode, most_tokens=5, window=9))
    longest = max(len(text) for episode in whole for text in episode.texts)
    assert played(Acting(decode, most_tokens=5, window=9, longest=longest + 6)) == whole
    short = played(Acting(decode, most_tokens=5, window=9, longest=longest - 10))
    assert any(len(one.turns) < len(other.turns) for one, other in zip(short, whole, strict=True))
    for one, other in zip(short, whole, strict=True):
        assert len(one.texts) == len(one.turns) > 0
        assert max(map(len, one.texts)) <= longest - 10
        assert one.texts == other.texts[: len(one.texts)]
    with pytest.raises(ValueError, match="the first prompt of task 0 is longer than longest=20 tokens allow"):
        played(Acting(decode, window=9, longest=20))


def test_the_goal_is_told_where_the_world_says_one():
    class Told(Colours):
        def info(self):
            return super().info() | {"goal": "take a ball"}

    for episode in played(Acting(window=0), Told):
        assert all(
            text[: len(start)] == start
            for text in episode.texts
            for start in [FORMATTER.tokens("<world> Your task: take a ball")]
        )


@pytest.mark.parametrize("decode", ["commands", "free"])
def test_an_update_moves_theta_and_begins_at_ratio_one(decode, monkeypatch):
    acting = Acting(decode, most_tokens=5, window=2)
    episodes = [one._replace(won=i % 2 == 0) for i, one in enumerate(played(acting))]
    groups = [i // GROUP for i in range(len(episodes))]
    settings, optimizer, theta = Grpo(minibatch=1000, at_once=10**6), adamw(1e-3), as_jax(theta_of(MODEL))
    given, terms = [], []

    def watched(log_prob, old, advantage, **rest):
        given.append((old, advantage))
        terms.append(grpo_loss(log_prob, old, advantage, **rest))
        return terms[-1]

    monkeypatch.setattr(updating, "grpo_loss", watched)
    random = np.random.default_rng(0)
    learnt = improve(
        MODEL, theta, optimizer.init(theta), theta_of(MODEL), episodes, groups, settings, optimizer, random
    )
    load_theta(MODEL, theta)
    assert any(not np.array_equal(theta[name], learnt.theta[name]) for name in MODEL.names)
    assert terms[0].ratio.item() == pytest.approx(1.0, abs=1e-5)
    assert terms[0].kl.item() == pytest.approx(0.0, abs=1e-9)
    ((old, advantage),) = given
    known = updating.advantages(episodes, groups, settings)
    wanted = [(d.log_prob, row[t]) for one, row in zip(episodes, known, strict=True) for t, d in one.decisions]
    np.testing.assert_allclose(
        sorted(zip(old.tolist(), advantage.tolist(), strict=True)), sorted(wanted), rtol=1e-6, atol=1e-6
    )


def test_imitating_prompts_teaches_to_answer_them():
    learner = model()
    plans = {0: ["look around", TAKING[0]], 1: ["wait", "look around", TAKING[1]], 2: [TAKING[2]]}
    samples = [
        one for task, plan in plans.items() for one in demonstration(FORMATTER, Colours, task, plan, window=1).samples()
    ]
    theta = imitate(
        learner,
        as_jax(theta_of(learner)),
        samples,
        passes=25,
        learning_rate=1e-2,
        shuffle=np.random.default_rng(0),
        minibatch=3,
    )
    load_theta(learner, theta)
    found = play(learner, FORMATTER, Colours, [0, 1, 2], 1, uniform(0, 3), Acting(temperature=0.0, window=1))
    assert [[turn.action for turn in episode.turns] for episode in found] == list(plans.values())


def test_free_answers_in_their_tags_are_understood():
    """An agent that was taught the form: its action is done, and told at the next step without the thought."""
    learner = model()
    opening = played(Acting("free", most_tokens=1, window=1))[0].texts[0][:-2]
    text = [*opening, *FORMATTER.command(ANSWER)]
    spoken = [Decision(i, None, text[i], 0.0) for i in range(len(opening), len(text))]
    theta = imitate(
        learner,
        as_jax(theta_of(learner)),
        [Sample(text, spoken)],
        passes=25,
        learning_rate=1e-2,
        shuffle=np.random.default_rng(0),
    )
    load_theta(learner, theta)
    acting = Acting("free", temperature=0.0, most_tokens=12, window=1)
    noise = draw_noise(np.random.default_rng(0), 1, acting)
    (episode,) = play(learner, FORMATTER, lambda: Colours(max_episode_steps=2), TASKS[:1], 1, noise, acting)
    first = episode.turns[0]
    assert (first.action, first.valid) == ("look around", True)
    assert episode.turns[1].observation == "you see a red thing"
    told = FORMATTER.tokenizer.decode(episode.texts[1])
    assert "you saw : find the red thing and your action was : look around Now , at step 2 , you see" in told


def test_the_window_is_checked():
    with pytest.raises(ValueError, match="window is a number of past steps, 0 or more, .* got -1"):
        Acting(window=-1)
