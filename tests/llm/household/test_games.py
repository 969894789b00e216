"""The user's folder of games: which are taken, which are left, and what is said when there are none."""

import json

import pytest

from fedrl.llm.household import simulator
from fedrl.llm.household.games import from_folder
from fedrl.llm.household.phrasing import sentence

TOLD = 'grammar :: """ {"task": [{"rhs": "Your task is to: put a apple in fridge."}]} """;'
PUT = 'action PutObject {{ template :: "{}"; feedback :: "#PutObject.feedback#"; }}'
FILE = {"pddl_domain": "(define)", "grammar": TOLD, "pddl_problem": "(define)", "solvable": True, "walkthrough": None}


def put(folder, name, kind="pick_and_place_simple", **changes):
    home = folder / name
    home.mkdir(parents=True)
    (home / "traj_data.json").write_text(json.dumps({"task_type": kind}))
    if changes.pop("game", True):
        data = {key: value for key, value in (FILE | changes).items() if value != "absent"}
        (home / "game.tw-pddl").write_text(json.dumps(data))


def test_those_that_alfred_would_load(tmp_path, monkeypatch):
    train = tmp_path / "json_2.1.1" / "train"
    put(train, "b-Apple/trial_2", "pick_two_obj_and_place")
    put(train, "a-Apple/trial_1")
    put(train, "c-AppleSliced/trial_1")
    put(train, "pick_and_place_with_movable_recep/trial_1")
    put(train, "d/other", "pick_and_place_with_movable_recep")
    put(train, "e/unsolvable", solvable=False)
    put(train, "f/unchecked", solvable="absent")
    put(train, "g/no_game", game=False)
    put(tmp_path / "json_2.1.1" / "valid_seen", "h/trial_1")
    games = from_folder(tmp_path)
    assert [(game.name, game.task_type) for game in games] == [
        ("a-Apple/trial_1", "Pick"),
        ("b-Apple/trial_2", "Pick2"),
    ]
    assert games[0].sentence == "put a apple in fridge"
    assert [game.name for game in from_folder(tmp_path, "valid_seen")] == ["h/trial_1"]
    assert [game.name for game in from_folder(train, types=("Pick2",))] == ["b-Apple/trial_2"]
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert from_folder() == games


def test_what_is_said_when_there_are_none(tmp_path, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(ValueError, match=r"give its path or set \$ALFWORLD_DATA"):
        from_folder()
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere; run alfworld-download"):
        from_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no solvable game of type Pick, .* run alfworld-download"):
        from_folder(tmp_path)
    (tmp_path / "json_2.1.1").mkdir()
    with pytest.raises(FileNotFoundError, match="train"):
        from_folder(tmp_path)
    with pytest.raises(ValueError, match="a split is one of"):
        from_folder(tmp_path, "test")
    put(tmp_path / "json_2.1.1" / "train", "a/trial_1", grammar="absent")
    with pytest.raises(ValueError, match="lacks grammar: it is no game of ALFWorld 0.2 or later"):
        from_folder(tmp_path)


def test_the_twin_refuses_rules_it_does_not_know(tmp_path):
    put(
        tmp_path,
        "a/trial_1",
        grammar=TOLD + PUT.format("drop {o} on {r}"),
        pddl_problem="(define (:objects) (:init) (:goal (x)))",
    )
    put(
        tmp_path,
        "b/trial_1",
        grammar=TOLD + PUT.format("move {o} to {r}"),
        pddl_problem="(define (:objects) (:init) (:goal (x)))",
    )
    spelt, ruled = from_folder(tmp_path)
    with pytest.raises(ValueError, match="spells putting as 'drop {o} on {r}'.* player=\"alfworld\""):
        simulator.load(spelt)
    with pytest.raises(
        ValueError, match='a grammar or a domain other than that of alfworld 0.4.2; .* player="alfworld"'
    ):
        simulator.load(ruled)


def test_a_grammar_without_a_task():
    with pytest.raises(ValueError, match="tells no task"):
        sentence("action look {}")
