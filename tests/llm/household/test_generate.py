"""Generated games: solvable by construction, in the right rooms, the same bytes in any process."""

import hashlib
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.llm.household import pddl, simulator
from fedrl.llm.household.expert import expert
from fedrl.llm.household.game import problem
from fedrl.llm.household.games import generated
from fedrl.llm.household.generate import SPLITS, Size, game
from fedrl.llm.household.rooms import CAN_BE, LAMPS, ROOMS, UNSEEN_PLANS, fits, receptacles
from fedrl.llm.household.tasks import TASKS

DIGEST = """
import hashlib
from fedrl.llm.household.expert import expert
from fedrl.llm.household.games import generated
games = generated("valid_unseen", 12, seed=5)
print(hashlib.sha256(repr([(game, expert(game)) for game in games]).encode()).hexdigest())
"""


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(SPLITS), st.integers(0, 10**6), st.integers(0, 2**32), st.sampled_from(sorted(TASKS)), st.booleans()
)
def test_a_game_is_sound(split, index, seed, kind, small):
    size = Size(5, (2, 5)) if small else Size()
    one = game(split, index, seed, (kind,), size)
    scene, task = one.scene, TASKS[kind]
    assert one.task_type == kind
    assert scene.room in task.rooms
    assert (scene.plan in UNSEEN_PLANS) == (split == "valid_unseen")
    assert not Counter(scene.receptacles) - Counter(receptacles(scene.room, scene.plan))
    assert len(scene.receptacles) <= 5 or not small
    assert all(thing in LAMPS or fits(scene.receptacles[at], thing) for thing, at in scene.objects)
    assert not task.able or scene.thing in CAN_BE[task.able].split()
    there = [scene.receptacles[at] for thing, at in scene.objects if thing == scene.thing]
    assert len(there) >= task.things
    assert scene.place not in there
    assert one.sentence in [
        text.format(thing=scene.thing.lower(), place=scene.place.lower()) for text in task.sentences
    ]
    player = simulator.load(one)
    assert not player.won
    plan = expert(one)
    for command in plan:
        assert not player.won
        assert command in player.admissible
        player.step(command)
    assert player.won


def test_every_type_room_and_sentence_comes_up():
    games = generated("train", 600, seed=1)
    assert {one.task_type for one in games} == TASKS.keys()
    assert {one.scene.room for one in games} == ROOMS.keys()
    shares = Counter(one.task_type for one in games)
    assert all(abs(shares[name] / 600 - task.games / 3553) < 0.06 for name, task in TASKS.items())
    assert {one.sentence.split()[0] for one in games} >= {"put", "look", "examine", "clean", "heat", "cool", "find"}
    assert len({one.scene for one in games}) == 600


def test_splits_share_no_game_and_unseen_rooms_are_new():
    games = {split: generated(split, 150) for split in SPLITS}
    scenes = [one.scene for split in SPLITS for one in games[split]]
    assert len(set(scenes)) == len(scenes)
    rooms = {split: {(one.scene.room, one.scene.receptacles) for one in games[split]} for split in SPLITS}
    assert not rooms["valid_unseen"] & (rooms["train"] | rooms["valid_seen"])
    assert rooms["valid_seen"] & rooms["train"]
    for room in ROOMS:
        assert len({receptacles(room, plan) for plan in range(1, 31)}) == 30


def test_another_process_makes_the_same_games():
    here = generated("valid_unseen", 12, seed=5)
    mine = hashlib.sha256(repr([(one, expert(one)) for one in here]).encode()).hexdigest()
    env = {**os.environ, "PYTHONHASHSEED": "77", "JAX_PLATFORMS": "cpu"}
    other = subprocess.run([sys.executable, "-c", DIGEST], env=env, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == mine


@pytest.mark.parametrize("kind", TASKS)
def test_a_written_problem_reads_back(kind):
    stated = problem(game("train", 0, types=(kind,)))
    assert pddl.problem(pddl.write(stated, "any")) == stated


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("test", 1), "a split is one of train, valid_seen, valid_unseen, got 'test'"),
        (("train", 1, 0, ("Fetch",)), "task types are of Pick, Look, .* got Fetch"),
        (("train", 0), "at least one game, got 0"),
    ],
)
def test_refusals_of_the_generator(arguments, message):
    with pytest.raises(ValueError, match=message):
        generated(*arguments)
