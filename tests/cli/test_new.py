"""`fedrl new`: a project that runs at once; its own tests are run, from where it is."""

import subprocess
import sys
import tomllib

import pytest
from support.command_line import call

from fedrl.experiments import find, meanings


def test_the_project_passes_its_own_tests(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call("new", "water-tank") == 0
    assert "cd water-tank && fedrl run ./recipe.py" in capsys.readouterr().out
    project = tmp_path / "water-tank"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_everything_has_the_projects_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert call("new", tmp_path / "deep" / "water-tank") == 0
    project = tmp_path / "deep" / "water-tank"
    content = tomllib.loads((project / "pyproject.toml").read_text())
    assert content["project"]["entry-points"]["fedrl.recipes"] == {"water-tank": "water_tank.recipe:RECIPE"}
    assert "# Water tank\n" in (project / "README.md").read_text()
    assert "$" not in "".join(file.read_text() for file in project.iterdir() if file.is_file())
    recipe = find.recipe(str(project / "recipe.py"))
    assert set(meanings.of_settings(recipe.config)) == set(vars(recipe.config()))
    assert recipe.claim_texts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("3d", "'3d' cannot name a Python package; begin with a letter, go on with letters, digits, - and _, and end"),
        ("__init__", "'__init__' cannot name a Python package"),
        ("tank-", "'tank-' cannot name a Python package"),
        ("./-tank", "'-tank' cannot name a Python package"),
        ("class", "'class' cannot name a Python package"),
        ("wässer", "'wässer' cannot name a Python package"),
        ("quickstart", "'quickstart' is a recipe of fedrl; choose another name: fedrl new my-quickstart"),
        ("fedrl", "a package fedrl is there already, and the new one would hide it; try fedrl new my-fedrl"),
        ("json", "a package json is there already"),
        ("full", "full is not empty; choose another name or an empty folder"),
        ("file", "file is a file; choose another name or move it away"),
    ],
)
def test_a_bad_name_writes_nothing(tmp_path, monkeypatch, capsys, name, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.rglob("*"))
    assert call("new", name) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_fine(tmp_path):
    (tmp_path / "tank").mkdir()
    assert call("new", tmp_path / "tank") == 0
    assert (tmp_path / "tank" / "recipe.py").exists()
