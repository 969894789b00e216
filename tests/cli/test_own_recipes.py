"""Recipes of a user's own, from folders outside the repository: by file, by module and by entry point."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
from support import tiny_recipes
from support.command_line import call
from support.outside import copy_recipe, install

from fedrl.cli import flower
from fedrl.experiments import orders
from fedrl.experiments.recipe import RecipeError
from fedrl.flower import node


@pytest.fixture(autouse=True)
def _search_path(monkeypatch):
    """What a recipe adds to the places where modules are searched for is gone after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def fedrl(*arguments: object, cwd: Path, path: Path | None = None) -> None:
    """The command in a process of its own, with modules also searched for in `path`."""
    search = os.pathsep.join(filter(None, [str(path or ""), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-P", "-m", "fedrl.cli", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | {"PYTHONPATH": search}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a finished run of each kind: runs/a_file, runs/a_module and runs/an-entry."""
    home = tmp_path_factory.mktemp("home")
    copy_recipe(home, "a_file")
    copy_recipe(home, "a_module")
    copy_recipe(install(home / "site", "tank", an_entry="installed_tank:RECIPE"), "installed_tank")
    fedrl("run", "./a_file.py", cwd=home)
    fedrl("run", "a_module:RECIPE", cwd=home)
    fedrl("run", "an-entry", cwd=home, path=home / "site")
    return home


def policies(run: Path) -> dict[str, bytes]:
    found = {file.parent.name: file.read_bytes() for file in run.glob("arms/*/policy.safetensors")}
    assert set(found) == {"PAvg", "alone"}
    return found


@pytest.mark.parametrize("name", ["a_file", "a_module", "an-entry"])
def test_every_kind_is_verified_evaluated_drawn_and_resumed(home, name, monkeypatch, tmp_path, capsys):
    """A file also from another folder; a module where it is."""
    monkeypatch.chdir(home if name == "a_module" else tmp_path)
    if name == "an-entry":
        monkeypatch.syspath_prepend(home / "site")
    run = Path(shutil.copytree(home / "runs" / name, tmp_path / "copy"))
    before = policies(run)
    verdict = (run / "verdict.json").read_bytes()
    (run / "verdict.json").unlink()
    assert call("verify", run) == 0
    assert (run / "verdict.json").read_bytes() == verdict
    assert call("evaluate", run, "--json") == 0
    assert call("plot", run) == 0
    assert call("compare", run, "--out", tmp_path / "bars.png") == 0

    shutil.rmtree(run / "arms" / "alone")
    (run / "finished.json").unlink()
    assert call("run", "--resume", "--out", run) == 0
    assert policies(run) == before
    assert call("run", run / "run.toml", "--out", tmp_path / "again") == 0
    assert policies(tmp_path / "again") == before
    assert "has changed" not in capsys.readouterr().out


def test_an_episode_is_played(monkeypatch, tmp_path):
    """A module's recipe on cart-pole."""
    monkeypatch.chdir(tmp_path)
    assert call("run", "support.tiny_recipes:TINY", "--out", "run") == 0
    assert call("play", "run", "--steps", 5, "--out", "clip.gif") == 0
    assert (tmp_path / "clip.gif").read_bytes().startswith(b"GIF8")
    cloudpickle.unregister_pickle_by_value(tiny_recipes)


def test_what_a_file_defines_travels_to_worker_processes(home, monkeypatch, tmp_path):
    """Its module has a name that they cannot import."""
    monkeypatch.chdir(tmp_path)
    assert call("run", home / "a_file.py", "--engine", "processes", "--workers", 1, "--out", "run") == 0
    assert policies(tmp_path / "run") == policies(home / "runs" / "a_file")


def test_a_changed_file_is_named(monkeypatch, tmp_path, capsys):
    """In processes of their own: one process reads a file once."""
    file = copy_recipe(tmp_path, "changing")
    fedrl("run", file, cwd=tmp_path)
    file.write_text(file.read_text().replace("ETA = 0.1", "ETA = 0.25"))
    monkeypatch.chdir(tmp_path)
    assert call("run", file, "--resume", "--out", "runs/changing") == 2
    said = "runs/changing holds a different run (build.ETA is 0.1 there, 0.25 here); pass another --out"
    assert said in capsys.readouterr().err
    assert call("verify", "runs/changing") == 0
    assert "note: the recipe has changed since runs/changing was written (build.ETA" in capsys.readouterr().out


def test_changed_code_says_which_line_to_delete(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    file = copy_recipe(tmp_path, "recoded")
    order = orders.order("recoded.py")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text(
        f'recipe = "{order.recipe}"\nseed = 0\nseeds = 2\n[config]\nrounds = 2\nkappa = 0.5\nkinds = ["a", "b"]\n'
        f'[build]\nfunction = "build"\ncode = "{order.plain()["build"]["code"]}0"\nETA = 0.1\n'
    )
    assert call("run", file, "--resume", "--out", "run") == 2
    said = capsys.readouterr().err
    assert "(the code of build differs); delete that `code` line from run.toml if you fixed a bug" in said


def test_claims_that_are_none_are_one_sentence_after_the_run(tmp_path, monkeypatch, capsys):
    file = copy_recipe(tmp_path, "claims_nothing")
    file.write_text(file.read_text().replace("    return [Claim(", "    [Claim("))
    monkeypatch.chdir(tmp_path)
    assert call("run", file) == 2
    said = capsys.readouterr().err
    assert "claims in claims_nothing.py returned a NoneType, expected a list of Claim(text, verdict, numbers)" in said


def test_a_run_toml_by_hand_names_a_file_beside_it(tmp_path, monkeypatch):
    copy_recipe(tmp_path / "project", "beside")
    (tmp_path / "project" / "mine.toml").write_text('recipe = "beside.py"\n[config]\nrounds = 1\n')
    monkeypatch.chdir(tmp_path)
    order = orders.from_toml("project/mine.toml")
    assert (order.recipe, order.name, order.config.rounds) == (str(tmp_path / "project" / "beside.py"), "beside", 1)


def test_flower_takes_names_only(tmp_path):
    order = orders.order(str(copy_recipe(tmp_path, "not_installed")))
    with pytest.raises(
        RecipeError, match=r"not_installed\.py is not installed under a name, and the engine flower sends"
    ):
        flower.refuse_own(order)
    flower.refuse_own(orders.order("quickstart"))
    with pytest.raises(ValueError, match="is installed on this node; install the package that has it"):
        node.rebuild(order.recipe, json.dumps({}), "PAvg", "train")
