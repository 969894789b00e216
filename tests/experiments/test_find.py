"""Recipes by name: every name leads to a record that is whole, every record has a name, and nothing else is imported."""

import dataclasses
import importlib
import pkgutil
import subprocess
import sys

import pytest

from fedrl import experiments, recipes
from fedrl.experiments import find, orders
from fedrl.experiments.recipe import Recipe, RecipeError


@pytest.mark.parametrize("name", find.names())
def test_a_name_leads_to_a_whole_record(name):
    recipe = find.recipe(name)
    assert isinstance(recipe, Recipe)
    assert dataclasses.is_dataclass(recipe.config)
    assert recipe.minutes > 0
    assert "\n" not in recipe.paper + recipe.shows
    order = orders.order(name, paper=True)  # the paper's settings are fields of the config
    assert order.seeds == (recipe.paper_seeds or recipe.seeds)
    changed = {key for key, value in dataclasses.asdict(order.config).items() if value != getattr(recipe.config(), key)}
    assert changed <= set(recipe.paper_settings)


def test_every_record_has_one_name():
    there = []
    for item in pkgutil.walk_packages(recipes.__path__, f"{recipes.__name__}."):
        if not item.name.rpartition(".")[2].startswith("_"):  # what recipes share; some of it wants extras
            module = importlib.import_module(item.name)
            there += [it for it in vars(module).values() if isinstance(it, Recipe)]
    named = [find.recipe(name) for name in find.names()]
    assert len(named) == len({id(it) for it in named})
    assert {id(it) for it in there} == {id(it) for it in named}


def test_names_are_sorted_those_of_no_paper_first():
    assert find.names()[:2] == ["quickstart", "control/cart-pole"]
    assert find.names()[1:] == sorted(find.names()[1:])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("labbi2025/fig7d", "did you mean labbi2025/fig7c?"),
        ("wang2024/fig1_cartpole", "did you mean wang2024/fig1-cartpole?"),
        ("zzz", "`fedrl recipes` lists them"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, hint):
    with pytest.raises(RecipeError) as error:
        find.recipe(name)
    assert str(error.value) == f"there is no recipe {name!r}; {hint}"


def test_the_folder_of_a_run_is_no_recipe(tmp_path):
    (tmp_path / "run.toml").write_text('recipe = "quickstart"\n')
    with pytest.raises(
        RecipeError, match=f"run.toml` repeats it, `fedrl run --resume --out {tmp_path}` goes on with it"
    ):
        find.recipe(str(tmp_path))


def test_an_unknown_setting_is_answered_with_the_nearest():
    with pytest.raises(RecipeError, match="^labbi2025/fig7a has no setting 'epsilom'; did you mean epsilon\\?$"):
        orders.order("labbi2025/fig7a", overrides={"epsilom": 0.1})


def imported(command: str) -> set[str]:
    """Modules of `fedrl.recipes` that are there after `command`, in a process of its own."""
    listing = "import sys; print(*(name for name in sys.modules if name.startswith('fedrl.recipes')))"
    said = subprocess.run([sys.executable, "-c", f"{command}\n{listing}"], capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    return set(said.stdout.split())


def test_only_the_module_of_the_wanted_recipe_is_imported():
    found = imported("from fedrl.experiments import orders; orders.order('control/cart-pole')")
    assert found == {"fedrl.recipes", "fedrl.recipes.control"}


def test_experiments_know_no_recipe():
    names = [item.name for item in pkgutil.walk_packages(experiments.__path__, f"{experiments.__name__}.")]
    assert len(names) > 5
    assert imported(f"import {', '.join(names)}") == set()


@pytest.mark.parametrize(
    ("reference", "canonical", "short"),
    [
        ("quickstart", "quickstart", "quickstart"),
        ("labbi2025/fig1a", "labbi2025/fig1a", "labbi2025/fig1a"),
        ("tank.py", "/home/me/tank.py", "tank"),
        ("../tank.py:FAST", "/home/tank.py:FAST", "tank-FAST"),
        ("/abs/tank.py:RECIPE", "/abs/tank.py:RECIPE", "tank"),
        ("project.tank:RECIPE", "project.tank:RECIPE", "tank"),
        ("project.tank:FAST", "project.tank:FAST", "tank-FAST"),
    ],
)
def test_references_as_run_toml_and_titles_have_them(reference, canonical, short):
    assert find.canonical(reference, "/home/me") == canonical
    assert find.short(canonical) == short


def test_the_table_is_what_the_records_say():
    for name, entry in find.table().items():
        recipe = find.recipe(name)
        assert (recipe.paper, recipe.shows, recipe.minutes) == (entry.paper, entry.shows, entry.minutes)
        assert recipe.claim_texts
        assert [paper.key for paper in recipe.cites] == [
            entry.cites or name.partition("/")[0]
        ] or recipe.paper == "fedrl"
