"""Episodes: groups side by side through one cache are as if each had been played and read on its own."""

import gymnasium
import numpy as np
import pytest
import torch
from support.tiny_agents import Colours, formatter, tiny, uniform

from fedrl.llm.episodes import Acting, Episode, draw_noise, play
from fedrl.llm.likelihood import Sample, likelihood
from fedrl.llm.parsing import DEMAND

torch.set_num_threads(1)
MODEL, FORMATTER = tiny(), formatter()
TASKS, GROUP = [0, 4, 1], 5


def played(seed: int = 0, acting: Acting = Acting(), tasks=TASKS, group=GROUP, make=Colours) -> list[Episode]:
    return play(MODEL, FORMATTER, make, tasks, group, uniform(seed, len(tasks) * group), acting)


EPISODES = played()


def test_groups_follow_each_other():
    assert [episode.task for episode in EPISODES] == [task for task in TASKS for _ in range(GROUP)]
    assert {episode.task_type for episode in EPISODES[:GROUP]} == {"warm"}
    assert {episode.task_type for episode in EPISODES[GROUP:]} == {"cold"}
    assert len({len(episode.turns) for episode in EPISODES}) > 1  # rows end at different times
    assert len({tuple(episode.tokens) for episode in EPISODES[:GROUP]}) > 1


def test_a_transcript_is_a_plain_encoding_of_what_was_seen_and_said():
    for episode in EPISODES:
        text = "".join(f"<world> {turn.observation} <agent> {turn.answer} <end>" for turn in episode.turns)
        assert episode.tokens == FORMATTER.tokens(text)


def test_playing_an_episode_again_gives_the_same():
    """Its actions are admissible, and the world says what it said."""
    for episode in EPISODES:
        with Colours() as env:
            seen, info = env.reset(seed=episode.task, options={"task": episode.task})
            for number, turn in enumerate(episode.turns):
                assert turn.observation == seen
                assert turn.action == turn.answer
                assert turn.action in info["admissible_commands"]
                assert turn.valid
                seen, reward, done, cut, info = env.step(turn.action)
                assert turn.reward == reward
                assert (done or cut) == (number == len(episode.turns) - 1)
        assert (episode.score, episode.won) == (info["score"], info["won"])


def test_decisions_are_where_they_say_and_as_likely_as_they_say():
    """The ratio of the first update is one: rows that were dropped, gaps in the cache and forced tokens change nothing."""
    samples = [Sample(e.tokens, [d for _, d in e.decisions]) for e in EPISODES]
    assert all(s.tokens[d.position] == d.chosen for s in samples for d in s.decisions)
    with torch.no_grad():
        now = likelihood(MODEL, samples).log_prob.numpy()
    then = [d.log_prob for s in samples for d in s.decisions]
    np.testing.assert_allclose(np.exp(now - then), 1.0, atol=1e-5)


def test_turns_with_one_command_have_no_decision():
    turns = [turn for episode in EPISODES for turn in episode.turns]
    only = [turn for turn in turns if turn.observation == "nothing happens"]  # after waiting
    assert only
    assert all(turn.action == "look around" and not turn.decisions for turn in only)
    assert all(turn.decisions for turn in turns if turn.observation.startswith("find"))


def test_same_noise_same_bytes():
    assert played() == EPISODES
    assert played(seed=1) != EPISODES


def test_fewer_rows_beside_it_do_not_change_an_episode():
    """Noise belongs to the row: the first group alone decides as it did among others."""
    alone = play(MODEL, FORMATTER, Colours, TASKS[:1], GROUP, lambda step: uniform(0, 15)(step)[:GROUP])
    assert [episode.tokens for episode in alone] == [episode.tokens for episode in EPISODES[:GROUP]]


def test_temperature_zero_gives_one_episode_a_task():
    found = played(acting=Acting(temperature=0.0))
    assert all(one.tokens == found[i - i % GROUP].tokens for i, one in enumerate(found))


def test_longest_cuts():
    whole = max(len(episode.tokens) for episode in EPISODES)
    assert played(acting=Acting(longest=whole + 5)) == EPISODES
    for longest in range(11, whole, 3):
        short = played(acting=Acting(longest=longest))
        assert max(len(episode.tokens) for episode in short) <= longest
        assert all(episode.turns for episode in short)
        for one, other in zip(short, EPISODES, strict=True):
            assert one.turns == other.turns[: len(one.turns)]
            assert one.tokens == other.tokens[: len(one.tokens)]
    with pytest.raises(ValueError, match="the first prompt of task 0 is longer than longest=10 tokens allow"):
        played(acting=Acting(longest=10))


def test_free_answers():
    acting = Acting(decode="free", most_tokens=7)
    found = play(MODEL, FORMATTER, Colours, TASKS, GROUP, draw_noise(np.random.default_rng(0), 15, acting), acting)
    for episode in found:
        assert all(1 <= len(turn.decisions) <= 7 for turn in episode.turns)
        assert all(d.choices is None for _, d in episode.decisions)
        assert not any(turn.valid for turn in episode.turns)  # it cannot write the tags of a thought
        assert len(episode.turns) == 4
        demand = [f" {DEMAND}", *[""] * 3]  # how to answer is said once
        pieces = "".join(
            f"<world> {turn.observation}{more} <agent> {turn.answer} <end>"
            for turn, more in zip(episode.turns, demand, strict=True)
        )
        if not {0, 2, 3} & {d.chosen for _, d in episode.decisions}:  # those are not shown when decoded
            assert episode.tokens == FORMATTER.tokens(pieces)


def test_free_answers_want_noise_for_all_their_tokens():
    acting = Acting(decode="free", most_tokens=100)
    with pytest.raises(ValueError, match="100 tokens need as many uniform numbers per row, got 64"):
        played(acting=acting)
    assert draw_noise(np.random.default_rng(0), 2, acting)(0).shape == (2, 100)


def test_worlds_are_closed():
    made: list[Colours] = []

    def make() -> Colours:
        made.append(Colours())
        return made[-1]

    played(make=make)
    assert len(made) == 15
    assert all(env.closed for env in made)


def test_worlds_that_begin_in_two_ways():
    count = iter(range(100))

    class Moody(gymnasium.Wrapper):
        def reset(self, **given):
            seen, info = self.env.reset(**given)
            return ("wait" if next(count) == 2 else seen), info

    with pytest.raises(ValueError, match="task 0 has two different first observations, one of them 'wait'"):
        played(make=lambda: Moody(Colours()))


@pytest.mark.parametrize("wrong", [{"decode": "command"}, {"temperature": -1.0}, {"most_tokens": 0}])
def test_settings_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Acting(**wrong)
