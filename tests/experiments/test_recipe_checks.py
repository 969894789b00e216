"""Recipes that cannot be found, loaded or used: one sentence each, at the command line, and nothing written."""

import re
import sys

import numpy as np
import pytest
from support.command_line import call
from support.outside import copy_recipe

from fedrl.experiments import find
from fedrl.experiments.recipe import Outcome, RecipeError

NO_OUTCOME = Outcome([], np.zeros((1, 1)))


@pytest.fixture(autouse=True)
def _search_path(monkeypatch):
    """What a recipe adds to the places where modules are searched for is gone after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])


BODY = "from fedrl.experiments.recipe import Arm, Recipe\nfrom dataclasses import dataclass\n"
RECORD = "RECIPE = Recipe('p', 's', 1.0, 1, {config}, {build}, lambda config, arms: [])\n"
CONFIG = "@dataclass(frozen=True)\nclass Config:\n    rounds: int = 2\n"
GOOD = BODY + CONFIG + RECORD.format(config="Config", build="lambda config: {build}")


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (
            "x = (\n",
            [],
            "mine.py cannot be loaded: syntax error at line 1 of mine.py ('(' was never closed); correct it",
        ),
        ("a = 1\nb = c\n", [], "mine.py cannot be loaded: NameError: name 'c' is not defined (line 2 of mine.py)"),
        ("import missing_here\n", [], "ModuleNotFoundError: No module named 'missing_here' (line 1 of mine.py)"),
        ("raise SystemExit(1)\n", [], "mine.py cannot be loaded: SystemExit: 1 (line 1 of mine.py)"),
        ("a = 1\n", [], "mine.py defines no Recipe; add one, such as RECIPE = Recipe(…)"),
        (
            GOOD + "B = RECIPE._replace(seeds=2)\n",
            [],
            "mine.py defines 2 recipes (RECIPE, B); say which: mine.py:RECIPE",
        ),
        (
            BODY + RECORD.format(config="dict", build="print"),
            [],
            "config of the recipe in mine.py is dict, expected a",
        ),
        (
            BODY + CONFIG.replace(" = 2", "") + RECORD.format(config="Config", build="print"),
            [],
            "setting rounds of Config in mine.py has no default; give it one",
        ),
        (
            BODY + CONFIG.replace("2", "None") + RECORD.format(config="Config", build="print"),
            [],
            "setting rounds of Config in mine.py is None, expected a number, text, true or false, or a tuple",
        ),
        (
            BODY + CONFIG.replace("2", "((1, 2), (3, 4))") + RECORD.format(config="Config", build="print"),
            [],
            "setting rounds of Config in mine.py is ((1, 2), (3, 4)), expected a number",
        ),
        (
            BODY + CONFIG + RECORD.format(config="Config", build="3"),
            [],
            "build of the recipe in mine.py expects a function",
        ),
        (GOOD.replace("'p'", "7"), [], "paper of the recipe in mine.py expects text, got 7; correct it"),
        (GOOD.replace("1.0, 1,", "1.0, 0,"), [], "seeds of the recipe in mine.py expects a whole number of at least 1"),
        (
            GOOD.replace("[])\n", "[], claim_texts=('it learns'))\n"),
            [],
            "expects a tuple of texts, such as (\"it learns\",), got 'it learns'",
        ),
        (GOOD.replace("[])\n", "[], cites=('me',))\n"), [], "expects a tuple of Paper(…), got ('me',); correct it"),
        (
            GOOD.replace("[])\n", "[], paper_settings=[1])\n"),
            [],
            "paper_settings of the recipe in mine.py expects a dict",
        ),
        (
            GOOD.replace("[])\n", "[], paper_settings={'rounds': 'many'})\n"),
            ["--paper"],
            "setting rounds expects a whole number (now 2), got 'many'",
        ),
        (
            GOOD.replace("{build}", "{'A': Arm(print, None, 1, 'fused')}"),
            [],
            "build in mine.py returned the arm 'A' whose federation is None, expected a Federation, such as",
        ),
        ("\0", [], "mine.py cannot be loaded: syntax error in mine.py ("),
        (
            GOOD.replace("{build}", "{}"),
            [],
            "build in mine.py returned no arms, so there is nothing to train; return at least one",
        ),
        (GOOD.replace("{build}", "[]"), [], "returned an object of type list, expected a dict of arms by name"),
        (
            GOOD.replace("{build}", "{'A': 3}"),
            [],
            "returned 'A' with an object of type int, expected a name with an Arm",
        ),
        (
            GOOD.replace("{build}", "1 / 0"),
            [],
            "build in mine.py raised ZeroDivisionError: division by zero (line 6 of mine.py); correct",
        ),
        (
            GOOD.replace("lambda config: {build}", "lambda: {}"),
            [],
            "build in mine.py raised TypeError: <lambda>() takes 0 positional arguments but 1 was given; correct",
        ),
        (
            GOOD,
            ["--set", "rounds=many"],
            "setting rounds expects a whole number (now 2), got 'many'; try --set rounds=2",
        ),
        (GOOD, ["--set", "round=3"], "mine has no setting 'round'; did you mean rounds?"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, monkeypatch, capsys, text, options, expected):
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert call("run", "mine.py", *options) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([""], "an arm called '', which cannot name a folder; use letters or digits"),
        ([".."], "an arm called '..', which cannot name a folder"),
        (["a:b", "a/b"], "the arms 'a:b' and 'a/b', which would both have the folder a_b; rename one"),
    ],
)
def test_every_arm_has_a_folder_of_its_own(tmp_path, monkeypatch, capsys, names, expected):
    file = copy_recipe(tmp_path, "named")
    last = "    return {"
    renamed = f"    return dict.fromkeys({names!r}, arm(pavg(eta=ETA, local_steps=1, horizon=4)))\n    return {{"
    file.write_text(file.read_text().replace(last, renamed))
    monkeypatch.chdir(tmp_path)
    assert call("run", file) == 2
    assert f"build in named.py returned {expected}" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (
            "[Claim('it learns', True, {})]",
            "the verdict True, expected holds, does not hold, undecided, as of judge.sign",
        ),
        ("[Claim('it learns', 'holds', None)]", "a claim whose numbers are None, expected a dict such as {'gap': gap}"),
        ("exit(3)", "SystemExit: 3"),
    ],
)
def test_claims_are_checked_one_by_one(tmp_path, claims, expected):
    file = copy_recipe(tmp_path, "claiming")
    file.write_text(file.read_text().replace("    return [Claim(", f"    return {claims}\n    return [Claim("))
    with pytest.raises(RecipeError, match=re.escape(expected)):
        find.recipe(str(file)).claims(None, {"PAvg": NO_OUTCOME, "alone": NO_OUTCOME})


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("folder.py", "folder.py; pass the path of a recipe's file"),
        ("./thank.py", "thank.py; did you mean tank.py?"),
        ("nothing/tank.py", "nothing/tank.py; pass the path of a recipe's file"),
        ("tank", "there is no recipe 'tank'; did you mean the file ./tank.py?"),
        ("tank.py:RECIPES", "tank.py has no 'RECIPES'; did you mean RECIPE?"),
        ("tank.py:Config", "tank.py leads to an object of type type, expected a Recipe"),
        (
            "absent.module:RECIPE",
            "there is no module 'absent', where absent.module:RECIPE should be; give the command in",
        ),
        (
            "broken_here:RECIPE",
            "broken_here cannot be imported: ZeroDivisionError: division by zero (line 2 of broken_here",
        ),
        ("json:RECIPE", "json has no 'RECIPE'"),
        ("json:loads", "json:loads leads to an object of type function, expected a Recipe"),
        ("two words:RECIPE", "'two words:RECIPE' is no name of a recipe, no file and no module:object"),
    ],
)
def test_a_bad_reference_is_one_sentence(tmp_path, monkeypatch, capsys, reference, expected):
    copy_recipe(tmp_path, "tank")
    (tmp_path / "broken_here.py").write_text("a = 1\nb = a / 0\n")
    (tmp_path / "folder.py").mkdir()
    monkeypatch.chdir(tmp_path)
    for command in ("run", "recipes"):
        assert call(command, reference) == 2
        said = capsys.readouterr().err
        assert expected in said
        assert said.count("\n") == 1


def test_a_recipes_own_error_is_one_sentence(tmp_path, monkeypatch, capsys):
    file = copy_recipe(tmp_path, "refusing")
    text = file.read_text().replace("import Arm, Claim,", "import Arm, Claim, RecipeError,")
    file.write_text(
        text.replace("    federation = ", "    if True: raise RecipeError('try kappa=0')\n    federation = ")
    )
    monkeypatch.chdir(tmp_path)
    assert call("run", file) == 2
    assert capsys.readouterr().err == "fedrl: try kappa=0\n"
