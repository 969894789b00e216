"""`fedrl recipes`: the list without JAX, one recipe in full, and recipes of other packages."""

import json
import subprocess
import sys

import pytest
from support.command_line import call
from support.outside import copy_recipe, install

from fedrl.experiments import find
from fedrl.experiments.papers import PAPERS


def test_the_list_waits_for_nothing_heavy():
    code = "import sys\nfrom fedrl.cli.recipes import list_all\nlist_all(False)\n"
    code += (
        "print([name for name in ('jax', 'matplotlib', 'gymnasium', 'optax') if name in sys.modules], file=sys.stderr)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert said.stderr == "[]\n"
    assert "wang2024/table2" in said.stdout


def test_one_recipe_with_its_paper_settings_and_claims(capsys):
    assert call("recipes", "wang2024/table2") == 0
    said = capsys.readouterr().out
    paper = PAPERS["wang2024"]
    for text in (paper.title, paper.link, "James Anderson", "Wang et al. 2024, Table 2", "--paper", "16000"):
        assert text in said
    assert "a smaller beta ends above the next larger one at every kappa" in said
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line.strip()}
    assert rows["betas"][1:3] == ["0.1,0.5,1.0", "0.1,0.2,0.5,0.8,1.0"]
    assert rows["eta"][1:] == ["0.05", "local", "step", "size"]
    assert "fedrl run wang2024/table2 --set betas=0.1,0.5    with another setting" in said
    assert call("recipes", "wang2024/table2", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["settings"][0] == {
        "name": "betas",
        "meaning": "momentum coefficients; 1 is PAvg",
        "default": [0.1, 0.5, 1.0],
        "paper": [0.1, 0.2, 0.5, 0.8, 1.0],
    }
    assert (facts["seeds"], facts["paper_seeds"], len(facts["claims"])) == (16, 16000, 2)


def test_a_file_is_shown_like_a_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = copy_recipe(tmp_path, "shown")
    assert call("recipes", file) == 0
    said = capsys.readouterr().out
    assert "shown: that it runs\nours\n" in said
    assert "how far kernels differ" in said
    assert "--set rounds=4    with another setting" in said
    assert "It says what it claims after a run." in said
    assert "--paper" not in said


def test_recipes_of_other_packages_are_listed_and_collisions_named(tmp_path, monkeypatch, capsys):
    install(tmp_path, "tank", a_tank="listed_tank:RECIPE", quickstart="listed_tank:RECIPE", odd="no module at all")
    copy_recipe(tmp_path, "listed_tank")
    install(tmp_path / "other", "tank-too", a_tank="elsewhere:RECIPE")
    monkeypatch.syspath_prepend(tmp_path / "other")
    monkeypatch.syspath_prepend(tmp_path)
    assert call("recipes") == 0
    said = capsys.readouterr().out
    assert "a-tank" in said
    assert "package tank 1.0" in said
    assert "note: quickstart of package tank 1.0 is hidden: the name is taken; rename it" in said
    assert "note: a-tank of package tank-too 1.0 is hidden" in said
    assert "listed_tank" not in sys.modules
    assert find.recipe("a-tank").shows == "that it runs"
    assert find.recipe("quickstart").shows != "that it runs"
    with pytest.raises(ValueError, match="odd is 'no module at all' in its package, expected module:object"):
        find.recipe("odd")
    with pytest.raises(ValueError, match="there is no recipe 'a-tang'; did you mean a-tank?"):
        find.recipe("a-tang")
