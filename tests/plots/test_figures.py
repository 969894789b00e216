"""Curves, bars and dots: what is drawn is what was measured."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from support.drawn import bands, bars, errors, lines, saved_figures

from fedrl.plots import bars as bar_chart
from fedrl.plots import clients, curves, style
from fedrl.records.log import Row


def rows(*levels: float, error: float | None = None) -> list[Row]:
    """Measured in rounds 0, 2, 4, …; every number beside the return is another one."""
    seeds = {} if error is None else {"return_se": error}
    measured = [
        {"round": 2 * i, "return": level, "worst": level - 5.0, "returns": [level - 5.0, level + 5.0]} | seeds
        for i, level in enumerate(levels)
    ]
    return [row for one in measured for row in (one, {"round": one["round"] + 1, "seconds": 1.0})]


def test_curves_are_the_mean_return_and_a_band_of_one_standard_error(tmp_path):
    with saved_figures() as figures:
        found = curves.draw(
            {"PAvg": rows(1.0, 2.0, 4.0, error=0.5), "alone": rows(3.0, 2.0, 1.0)},
            tmp_path / "a.png",
            levels={"best": 7.0},
        )
    assert found.exists()
    (axes,) = figures[0].axes
    assert lines(axes) == {
        "PAvg": ([0, 2, 4], [1.0, 2.0, 4.0]),
        "alone": ([0, 2, 4], [3.0, 2.0, 1.0]),
        "best": ([0.0, 1.0], [7.0, 7.0]),  # across the whole figure
    }
    assert bands(axes) == [([0.0, 2.0, 4.0], [0.5, 1.5, 3.5], [1.5, 2.5, 4.5])]  # a single seed has none
    assert axes.get_xscale() == axes.get_yscale() == "linear"


def test_curves_against_something_else_than_rounds(tmp_path):
    with saved_figures() as figures:
        curves.draw(
            {"a": rows(1.0, 2.0), "b": rows(1.0, 3.0)},
            tmp_path / "a.png", per_round={"b": 5}, words=("epochs", "success"), loglog=True,
        )  # fmt: skip
    (axes,) = figures[0].axes
    assert lines(axes) == {"a": ([0, 2], [1.0, 2.0]), "b": ([0, 10], [1.0, 3.0])}
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("epochs", "success", "log")


def test_bars_are_the_means_and_their_intervals(tmp_path):
    finals = {("one", "PAvg"): (4.0, 0.5), ("one", "alone"): (-2.0, 0.25), ("two", ""): (3.0, None)}
    with saved_figures() as figures:
        bar_chart.draw({"": finals}, tmp_path / "a.png")
    (axes,) = figures[0].axes
    assert bars(axes) == [4.0, -2.0, 3.0]
    assert [(x, half) for ((x, _), half) in errors(axes)] == [([4.0], [0.5]), ([-2.0], [0.25])]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["PAvg", "alone", "two"]


def test_dots_are_the_means_over_seeds(tmp_path):
    returns = {"PAvg": np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 4.0]]), "alone": np.array([[7.0, 8.0, 9.0]])}
    with saved_figures() as figures:
        clients.draw(returns, tmp_path / "a.png")
    (axes,) = figures[0].axes
    (several, spread), (one, nothing) = errors(axes)
    assert several == ([-0.25, 0.75, 1.75], [2.0, 5.0, 2.0])
    assert spread == pytest.approx([1.0, 0.0, 2.0])  # deviation over sqrt(2)
    assert one == ([0.25, 1.25, 2.25], [7.0, 8.0, 9.0])
    assert nothing is None


def test_curves_by_what_they_cost(tmp_path):
    costs = [
        {"round": i, "return": 1.0 * i, "env_steps": 100 * i, "seconds": 0.5}
        | {"bytes_up": 8 * i, "bytes_down": 4 * i, "bytes_peer": i}
        for i in range(3)
    ]
    found = {}
    with saved_figures() as figures:
        for x in curves.X_AXES:
            curves.draw({"a": costs}, tmp_path / f"{x}.png", x=x)
            found[x] = lines(figures[-1].axes[0])["a"][0]
    assert found == {"rounds": [0, 1, 2], "steps": [0, 100, 200], "bytes": [0, 13, 26], "seconds": [0.5, 0.5, 0.5]}


def test_a_legend_never_covers_a_curve(tmp_path):
    with saved_figures() as figures:
        curves.draw({name: rows(1.0, 5.0, 1.0) for name in ("a", "b")}, tmp_path / "a.png")
    (axes,) = figures[0].axes
    assert not axes.get_window_extent().overlaps(axes.get_legend().get_window_extent())


def test_an_svg_beside_a_png_and_a_dark_one_on_request(tmp_path):
    drawn = [curves.draw({"a": rows(1.0)}, tmp_path / "a.png")]
    with style.dark():
        drawn.append(curves.draw({"a": rows(1.0)}, tmp_path / "a.png"))
    assert [path.name for path in drawn] == ["a.png", "a-dark.png"]
    assert all(path.with_suffix(".svg").read_text().startswith("<?xml") for path in drawn)
    corners = [plt.imread(path)[0, 0, :3].mean() for path in drawn]
    assert corners[0] > 0.95
    assert corners[1] < 0.15
    curves.draw({"a": rows(1.0)}, tmp_path / "b.svg")
    assert not (tmp_path / "b.png").exists()


def test_figures_leave_pyplot_alone(tmp_path):
    """A user's notebook keeps its own back end and sees no figure of ours; nothing has to be closed."""
    package = Path(style.__file__).parents[1]
    assert [str(file) for file in package.rglob("*.py") if "matplotlib.pyplot" in file.read_text()] == []
    before = matplotlib.get_backend(), plt.get_fignums()
    curves.draw({"a": rows(1.0)}, tmp_path / "a.png")
    assert (matplotlib.get_backend(), plt.get_fignums()) == before
