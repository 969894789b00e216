"""The Gymnasium face: spaces, limits, rewards, and the game one asks for."""

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from fedrl.llm.household.environment import HouseholdEnv
from fedrl.llm.household.expert import expert
from fedrl.llm.household.games import generated
from fedrl.llm.household.tasks import TASKS

GAMES = generated("train", 12)


def test_gymnasium_accepts_it():
    check_env(HouseholdEnv(GAMES), skip_render_check=True)


@pytest.mark.parametrize("task", range(12))
def test_the_expert_wins_the_game_asked_for(task):
    env = HouseholdEnv(GAMES)
    text, info = env.reset(options={"task": task})
    assert text.endswith(f"Your task is to: {GAMES[task].sentence}.")
    assert env.observation_space.contains(text)
    assert info["goal"] == GAMES[task].sentence
    assert info["task_type"] in TASKS
    assert (info["task"], info["won"], info["score"]) == (task, False, 0.0)
    rewards = []
    for command in expert(GAMES[task]):
        assert command in info["admissible_commands"]
        assert env.action_space.contains(command)
        text, reward, terminated, truncated, info = env.step(command)
        assert env.observation_space.contains(text)
        rewards.append(reward)
        assert not truncated
    assert terminated
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert (info["won"], info["score"]) == (True, 1.0)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step("look")


def test_the_limit_cuts_and_nonsense_does_nothing():
    env = HouseholdEnv(GAMES, step_limit=3)
    _, before = env.reset(options={"task": 4})
    for last in (False, False, True):
        text, reward, terminated, truncated, info = env.step("dance")
        assert (text, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, last)
        assert info["admissible_commands"] == before["admissible_commands"]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("look")
    env.reset(options={"task": 4})
    text, _, _, truncated, _ = env.step("look")
    assert text.startswith("You are in the middle of a room.")
    assert not truncated


def test_help_is_answered_but_not_offered():
    env = HouseholdEnv(GAMES)
    _, info = env.reset(options={"task": 1})
    assert "help" not in info["admissible_commands"]
    assert {"look", "inventory"} <= set(info["admissible_commands"])
    text, _, _, _, after = env.step("help")
    assert "Available commands" in text
    assert after["admissible_commands"] == info["admissible_commands"]


def test_the_seed_draws_the_game():
    env = HouseholdEnv(GAMES)
    drawn = [env.reset(seed=seed)[1]["task"] for seed in range(20)]
    assert drawn == [HouseholdEnv(GAMES).reset(seed=seed)[1]["task"] for seed in range(20)]
    assert len(set(drawn)) > 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "at least one game"),
        ((GAMES, "robot"), '"simulator" or "alfworld", got'),
        ((GAMES, "simulator", 0), "step_limit must be at least 1, got 0"),
    ],
)
def test_refusals_of_the_environment(arguments, message):
    with pytest.raises(ValueError, match=message):
        HouseholdEnv(*arguments)
    with pytest.raises(ValueError, match="a game from 0 to 11, got 12"):
        HouseholdEnv(GAMES).reset(options={"task": 12})
