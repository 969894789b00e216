"""The intervals of `fedrl compare`, by hand and by a printed table of Student's t, and its panels."""

from contextlib import contextmanager

import numpy as np
import pytest
from support.command_line import call
from support.federations import federation
from support.small_runs import train

from fedrl.cli.compare import Final, half_width, interval, panel_names, t_quantile
from fedrl.plots import style
from fedrl.records.environment_name import EnvironmentName


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (7, 2.3646), (30, 2.0423)])
def test_student_t_as_printed(freedom, t):
    assert t_quantile(freedom) == pytest.approx(t, abs=1e-4)


def test_half_the_width_is_t_times_the_standard_error():
    assert half_width(np.array([1.0, 3.0])) == pytest.approx(12.7062 * 1.0, rel=1e-5)
    assert half_width(np.array([0.0, 0.0, 6.0, 6.0])) == pytest.approx(3.1824 * 3.0**0.5, rel=1e-4)
    assert half_width(np.array([2.0])) is None


def test_what_is_printed():
    assert interval(Final("run", "arm", 10.0, 2.5, 4, "cart_pole")) == "7.500 to 12.500"
    assert interval(Final("run", "arm", 10.0, None, 1, "cart_pole")) == "–"


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.7062), (2, 4.30265), (9, 2.26216), (1000, 1.96234)])
def test_t_quantile_agrees_with_the_tables(freedom, quantile):
    assert t_quantile(freedom) == pytest.approx(quantile, abs=1e-4)


def test_one_panel_per_environment_by_hand():
    carts, cars = EnvironmentName("1", "cart_pole"), EnvironmentName("2", "mountain_car")
    short = EnvironmentName("3", "cart_pole")
    where = {("a", "PAvg"): carts, ("a", "alone"): carts, ("b", ""): carts, ("c", ""): cars}
    assert panel_names(where) == dict.fromkeys(list(where)[:3], "cart_pole") | {("c", ""): "mountain_car"}
    named = panel_names({("a", ""): carts, ("b", ""): short})
    assert named == {("a", ""): "cart_pole (a)", ("b", ""): "cart_pole (b)"}
    same_run = panel_names({("a", "x"): carts, ("a", "y"): short})
    assert len(set(same_run.values())) == 2


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two runs of four states and one of five."""
    home = tmp_path_factory.mktemp("home")
    for name, states, seed in (("one", 4, 0), ("two", 4, 1), ("larger", 5, 0)):
        train(home / name, where=federation(2, states=states), rounds=1, seed=seed)
    return home


def test_different_environments_do_not_share_an_axis(home, capsys):
    panels = []
    with captured_figures(panels):
        assert call("compare", home / "one", home / "two", home / "larger", "--out", home / "three.png") == 0
        said = capsys.readouterr().out
        assert call("compare", home / "one", home / "two", "--out", home / "both.png") == 0
    assert "Returns of different environments cannot be compared" in said
    assert panels == [["finite (one, two)", "finite (larger)"], [""]]
    assert "cannot be compared" not in capsys.readouterr().out


@contextmanager
def captured_figures(panels: list):
    """The titles of the panels of every figure that is saved."""
    save = style.save
    with pytest.MonkeyPatch.context() as patch:

        def look(figure, path, title):
            panels.append([axes.get_title(loc="left") for axes in figure.axes])
            return save(figure, path, title)

        patch.setattr(style, "save", look)
        yield
