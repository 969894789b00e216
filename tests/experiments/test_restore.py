"""Which run a path means, and what is said where the recipe or the arm is gone; no run is trained."""

from pathlib import Path

import pytest

from fedrl.experiments import orders, restore
from fedrl.experiments.ending import Ending
from fedrl.experiments.recipe import RecipeError
from fedrl.records.run_toml import run_of_arm


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    arm = Path("run/arms/P_Avg")
    arm.mkdir(parents=True)
    (arm / "run.toml").write_text('kind = "train"\nseeds = 1\n')
    Path("run/run.toml").write_text('recipe = "quickstart"\npatience = 3\nstop_at = 2\n')
    return tmp_path


def test_an_arm_is_known_by_the_run_it_is_in(home, monkeypatch):
    assert run_of_arm("run/arms/P_Avg") == Path("run")
    assert run_of_arm("run") is None
    assert restore.place_of(Path("run/arms/P_Avg/run.toml"), None) == (Path("run"), "P_Avg")
    assert restore.place_of(Path("run/run.toml"), "PAvg") == (Path("run"), "PAvg")
    with pytest.raises(RecipeError, match="is one arm of run, and --arm asks for 'alone'"):
        restore.place_of(Path("run/arms/P_Avg"), "alone")
    monkeypatch.chdir("run/arms/P_Avg")
    assert run_of_arm(".") == home / "run"


def test_a_folder_called_arms_of_ones_own_is_no_recipe(home):
    Path("run/run.toml").write_text('kind = "train"\n')
    assert run_of_arm("run/arms/P_Avg") is None


def test_how_it_ends_is_part_of_the_run(home):
    order = orders.from_toml("run")
    assert order.ending == Ending(2, 3)
    assert orders.from_plain(order.plain()) == order
    Path("run/run.toml").write_text('recipe = "quickstart"\npatience = true\n')
    with pytest.raises(RecipeError, match="patience in run expects a whole number, got True"):
        orders.from_toml("run")


def test_a_recipe_that_moved(home):
    Path("run/run.toml").write_text(f'recipe = "{home}/gone.py:RECIPE"\n')
    with pytest.raises(
        RecipeError, match="the recipe in .*gone.py, which is not there; put it back, or correct `recipe`"
    ):
        orders.from_toml("run")


@pytest.mark.parametrize("name", ["mine.py", "./arms/mine.py:RECIPE", "../run/mine.py"])
def test_code_that_came_with_a_run_is_not_run(home, name):
    """Runs write absolute paths, so a relative one is by whoever sent the folder."""
    for file in ("run/mine.py", "run/arms/mine.py"):
        Path(file).write_text("raise SystemExit('this code was run')\n")
    Path("run/run.toml").write_text(f'recipe = "{name}"\n')
    with pytest.raises(RecipeError, match="inside the run's own folder, whose code would be run; if you trust it"):
        orders.from_toml("run")
