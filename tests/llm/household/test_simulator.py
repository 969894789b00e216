"""The simulator on a room made by hand, sentence by sentence, and its speed. Against the engine: test_household_alfworld."""

import random
import time

import pytest

from fedrl.llm.household import simulator
from fedrl.llm.household.game import Game, Scene
from fedrl.llm.household.games import generated

SCENE = Scene(
    "Kitchen",
    1,
    ("CounterTop", "Fridge", "Microwave", "SinkBasin", "SideTable"),
    (("Apple", 0), ("Apple", 1), ("DeskLamp", 4), ("Knife", 0), ("Mug", 2)),
    "Apple",
    "CounterTop",
)
GAME = Game("by hand", "Heat", "put a hot apple in countertop", SCENE)


def test_a_game_from_its_first_sentence_to_its_last():
    player = simulator.load(GAME)
    assert player.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a countertop 1, a fridge 1, a microwave 1, a sidetable 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a hot apple in countertop."
    )
    for command, text in (
        ("look", "You are in the middle of a room. Looking quickly around you, you see nothing."),
        ("inventory", "You are not carrying anything."),
        ("open fridge 1", "Nothing happens."),
        ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a apple 2, and a knife 1."),
        ("go to countertop 1", "Nothing happens."),
        ("examine apple 2", "Nothing happens."),
        (" look\n", "You are facing the countertop 1. Next to it, you see nothing."),
        ("LOOK", "Nothing happens."),
        ("take knife 1 from countertop 1", "You pick up the knife 1 from the countertop 1."),
        ("slice apple 2 with knife 1", "You sliced the apple 2 with the knife 1."),
        ("move knife 1 to countertop 1", "You move the knife 1 to the countertop 1."),
        ("take apple 2 from countertop 1", "You pick up the apple 2 from the countertop 1."),
        ("examine apple 2", "This is a sliced apple 2."),
        ("inventory", "You are carrying: a apple 2."),
        ("go to sinkbasin 1", "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing."),
        ("clean apple 2 with sinkbasin 1", "You clean the apple 2 using the sinkbasin 1."),
        ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
        ("cool apple 2 with fridge 1", "You cool the apple 2 using the fridge 1."),
        ("examine apple 2", "This is a cool and clean sliced apple 2."),
        ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1."),
        ("close fridge 1", "You close the fridge 1."),
        ("examine fridge 1", "The fridge 1 is closed."),
        ("go to sidetable 1", "You arrive at sidetable 1. On the sidetable 1, you see a desklamp 1."),
        ("use desklamp 1", "You turn on the desklamp 1."),
        ("use desklamp 1", "You turn on the desklamp 1."),
        ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
        ("heat apple 2 with microwave 1", "You heat the apple 2 using the microwave 1."),
        ("examine apple 2", "This is a hot and clean sliced apple 2."),
        ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a knife 1."),
    ):
        assert player.step(command) == text
        assert not player.won
    assert player.step("move apple 2 to countertop 1") == "You move the apple 2 to the countertop 1."
    assert player.won
    assert player.reset().startswith("-= Welcome")
    assert not player.won


def test_what_is_admissible_with_a_full_and_an_empty_hand():
    player = simulator.load(GAME)
    player.step("go to microwave 1")
    away = [f"go to {place}" for place in ("countertop 1", "fridge 1", "sidetable 1", "sinkbasin 1")]
    always = ["examine microwave 1", *away, "help", "inventory", "look"]
    assert player.admissible == [*always, "open microwave 1"]
    player.step("open microwave 1")
    assert player.admissible == sorted([*always, "close microwave 1", "take mug 1 from microwave 1"])
    player.step("take mug 1 from microwave 1")
    held = ["examine mug 1", "heat mug 1 with microwave 1", "move mug 1 to microwave 1"]
    assert player.admissible == sorted([*always, "close microwave 1", *held])
    assert player.step("examine mug 1") == "This is a normal mug 1. In it, you see nothing."
    assert player.step("help").startswith("Available commands:\n  look:                             look around")


@pytest.mark.parametrize("kind", ["Pick2", "Heat"])
def test_thousands_of_steps_a_second(kind, capsys):
    player, rng = simulator.load(generated("train", 1, types=(kind,))[0]), random.Random(0)
    began = time.process_time()
    for i in range(4000):
        if i % 50 == 0:
            player.reset()
        player.step(rng.choice(player.admissible))
    pace = 4000 / (time.process_time() - began)
    with capsys.disabled():
        print(f"\ntwin, {kind}: {pace:,.0f} steps per CPU second")
    assert pace >= 2000
