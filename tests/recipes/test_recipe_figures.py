"""The recipes' own figures: what is drawn is what was measured."""

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from support.drawn import bands, bars, errors, lines, saved_figures

from fedrl.experiments.recipe import Outcome
from fedrl.recipes.fedagent import _results as agents
from fedrl.recipes.fedagent import smollm2
from fedrl.recipes.fedagent._config import Config
from fedrl.recipes.labbi2025 import _figures, _floors, _speed_up
from fedrl.recipes.labbi2025 import floors as labbi2025_floors
from fedrl.recipes.labbi2025._family import FEDPG, SYNTHETIC
from fedrl.recipes.wang2024 import _betas, _deep, fig1, fig2, table2, table3
from fedrl.recipes.xie2025 import _levels, fig5
from fedrl.recipes.xu2024 import _curves, fig7


def outcome(*levels: float, apart: float = 1.0, final: list[list[float]] | None = None, **more) -> Outcome:
    """Two seeds, `apart` above and below each level: that is both the standard error and the deviation (ddof 0)."""
    rows = [
        {"round": 2 * i, "return": level, "return_se": apart, "return_by_seed": [level - apart, level + apart]} | more
        for i, level in enumerate(levels)
    ]
    ends = [[levels[-1] - apart], [levels[-1] + apart]] if final is None else final
    return Outcome(rows, np.array(ends))


def test_labbi2025_gate(tmp_path):
    with saved_figures() as figures:
        _figures.gate({"S-FedPG": outcome(1.0, 3.0)}, tmp_path, "title", {"best": 4.0})
    (axes,) = figures[0].axes
    assert lines(axes) == {"S-FedPG": ([0, 2], [1.0, 3.0]), "best: 4": ([0.0, 1.0], [4.0, 4.0])}
    assert bands(axes) == [([0.0, 2.0], [0.0, 2.0], [2.0, 4.0])]


def test_labbi2025_speed_up(tmp_path, monkeypatch):
    """Above J, below the share that is still missing between 0 and 10; round 0 has no place on a logarithmic axis."""
    monkeypatch.setattr(_figures, "ends", lambda config, task, count: _speed_up.Ends(uniform=0.0, best=10.0))
    config = _speed_up.Settings(clients=(2,), eta=0.5)
    arms = {_speed_up.arm_name(name, 2): outcome(1.0, 4.0 + i, 5.0 + i, apart=0.5) for i, name in enumerate(FEDPG)}
    with saved_figures() as figures:
        _figures.speed_up(config, arms, tmp_path, SYNTHETIC)
    panels = figures[0].axes
    for i in range(3):
        drawn, missing = panels[i].get_lines()[0], panels[3 + i].get_lines()[0]
        assert (drawn.get_xdata().tolist(), drawn.get_ydata().tolist()) == ([2, 4], [4.0 + i, 5.0 + i])
        np.testing.assert_allclose(missing.get_ydata(), [0.6 - 0.1 * i, 0.5 - 0.1 * i])
    assert drawn.get_label() == "M = 2, step 1"


def test_labbi2025_floors(tmp_path, monkeypatch):
    """Left against M with the 1/M line through the first, right against epsilon with its square."""
    config = _floors.Settings(clients=(1, 4), epsilons=(0.1, 0.2))
    names = list(_floors.build(config))
    found = {name: np.array([1.0, 3.0]) * (i + 1) for i, name in enumerate(names)}
    monkeypatch.setattr(labbi2025_floors, "floors", lambda arms: found)
    with saved_figures() as figures:
        labbi2025_floors.draw(config, {}, tmp_path)
    left, right = figures[0].axes
    sizes = [((1.0, 4.0), [2 * (1 + names.index(f"M={M}")) for M in config.clients])]
    assert [(tuple(x), y) for (x, y), _ in errors(left)][:1] == sizes
    guides = [line for axes in (left, right) for line in axes.get_lines() if line.get_linewidth() == 0.8]
    for line, power in zip(guides, (-1.0, 2.0), strict=True):
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        np.testing.assert_allclose(y[-1] / y[0], (x[-1] / x[0]) ** power)
    assert len(errors(right)) == 3


def test_wang2024_curves(tmp_path):
    config = fig1.CartPole(betas=(0.2,))
    names = [_deep.BASELINE, *(_betas.arm_name(method, 0.2) for method in _deep.METHODS)]
    arms = {name: outcome(1.0, 5.0 + i) for i, name in enumerate(names)}
    with saved_figures() as figures:
        fig1.CART_POLE.draw(config, arms, tmp_path)
    left, right = (lines(axes) for axes in figures[0].axes)
    assert left == {"PAvg": ([0, 2], [1.0, 5.0]), "beta = 0.2": ([0, 2], [1.0, 6.0])}
    assert right == {"PAvg": ([0, 2], [1.0, 5.0]), "beta = 0.2": ([0, 2], [1.0, 7.0])}
    assert bands(figures[0].axes[1])[1] == ([0.0, 2.0], [0.0, 6.0], [2.0, 8.0])

    both = {fig2.arm_name(m, n): outcome(1.0, 10.0 * i + n) for i, m in enumerate(_deep.METHODS) for n in (4, 8)}
    with saved_figures() as figures:
        fig2.draw(fig2.Config(clients=(4, 8)), both, tmp_path)
    assert lines(figures[0].axes[1]) == {"N = 4": ([0, 2], [1.0, 14.0]), "N = 8": ([0, 2], [1.0, 18.0])}


def test_wang2024_tables(tmp_path):
    two = table2.Config(betas=(0.1, 1.0), kappas=(0.0, 1.0))
    arms = {table2.name(b, k): outcome(10.0 * b + k) for b in two.betas for k in two.kappas}
    with saved_figures() as figures:
        table2.draw(two, arms, tmp_path)
    found = errors(figures[0].axes[0])
    assert [points for points, _ in found] == [([0.0, 1.0], [1.0, 2.0]), ([0.0, 1.0], [10.0, 11.0])]
    assert [half for _, half in found] == [pytest.approx([1.0, 1.0])] * 2
    printed = [line.get_ydata().tolist() for line in figures[0].axes[0].get_lines() if line.get_linestyle() == "--"]
    assert printed == [list(table2.PRINTED[0.1]), list(table2.PRINTED[1.0])]

    three = table3.Config(tasks=("CartPole",), betas=(0.8,))
    ends = {f"CartPole, {table3.method_name(b)}": outcome(100 * b, apart=2.0) for b in (0.8, 1.0)}
    with saved_figures() as figures:
        table3.draw(three, ends, tmp_path)
    (axes,) = figures[0].axes
    assert errors(axes) == [(([0, 1], [80.0, 100.0]), pytest.approx([2.0, 2.0]))]
    assert lines(axes)["as printed"] == ([0, 1], [86.58, 85.92])


def test_xie2025_who_was_chosen(tmp_path):
    """Chosen 1 + 3, 1 + 0 and 0 + 1 times in two rounds; each car's dot is the mean over two seeds."""
    found = outcome(0.0, final=[[1.0, 2.0, 3.0], [3.0, 4.0, 9.0]])
    rows = [{"round": 1, "train/chosen": [1, 1, 0]}, {"round": 2, "train/chosen": [3, 0, 1]}]
    with saved_figures() as figures:
        fig5.draw(fig5.Config(clients=3), {"FedAvg": Outcome(found.rows + rows, found.returns)}, tmp_path)
    shares, earned = figures[0].axes
    np.testing.assert_allclose(bars(shares), [4 / 6, 1 / 6, 1 / 6])
    (dots,) = (it for it in earned.collections if isinstance(it, PathCollection))
    assert np.asarray(dots.get_offsets()).tolist() == [[1.0, 2.0], [2.0, 3.0], [3.0, 6.0]]


def test_xie2025_levels(tmp_path):
    found = {"low": {"FedAvg": outcome(1.0, 2.0)}, "high": {"FedAvg": outcome(0.0, 5.0)}}
    with saved_figures() as figures:
        _levels.draw(found, tmp_path / "a.png", "title")
    low, high = figures[0].axes
    assert (lines(low), lines(high)) == ({"FedAvg": ([0, 2], [1.0, 2.0])}, {"FedAvg": ([0, 2], [0.0, 5.0])})
    assert bands(high) == [([0.0, 2.0], pytest.approx([-1.0, 4.0]), pytest.approx([1.0, 6.0]))]
    assert low.get_title() == "low heterogeneity"


def test_xu2024_speed_by_epoch(tmp_path):
    """Measured in rounds 0, 2 and 4 of a run of 60 epochs; 5 m/s are a quarter of 20."""
    with saved_figures() as figures:
        _curves.draw(
            {"FIRL": outcome(0.1, 0.2, 0.4, apart=0.1)}, {"SUMO": 5.0}, tmp_path / "a.png", "", epochs=60, v_ref=20.0
        )
    (axes,) = figures[0].axes
    assert lines(axes) == {
        "FIRL": ([0.0, 30.0, 60.0], pytest.approx([0.1, 0.2, 0.4])),
        "SUMO (5.00 m/s)": ([0.0, 1.0], [0.25, 0.25]),
    }
    ((_, low, high),) = bands(axes)
    assert (low, high) == (pytest.approx([0.0, 0.1, 0.3]), pytest.approx([0.2, 0.3, 0.5]))


def test_xu2024_speed_per_message(tmp_path):
    """One client uploads in each of rounds 2 and 4, and nobody talks to a neighbour: the cost is 1, then 2."""
    arms = {"FIRL": outcome(0.0, 3.0, 8.0, **{"train/updates": 1, "train/messages": 0})}
    with saved_figures() as figures:
        fig7.draw(fig7.Config(epochs=60), arms, tmp_path)
    assert lines(figures[0].axes[0]) == {"FIRL": ([30.0, 60.0], [3.0, 4.0])}


def test_fedagent_curves_and_table(tmp_path):
    more = {"score": 0.5, "score_by_seed": [0.4, 0.6], "success/pick": 0.25, "success/pick_by_seed": [0.25, 0.25]}
    arms = {"FedAgent": outcome(0.2, 0.6, apart=0.1, **more), "alone": outcome(0.2, 0.3, apart=0.1, **more)}
    with saved_figures() as figures:
        agents.draw(Config(local_epochs=3), arms, tmp_path / "a.png", "", {"alone": 1})
    assert lines(figures[0].axes[0]) == {"FedAgent": ([0, 6], [0.2, 0.6]), "alone": ([0, 2], [0.2, 0.3])}
    assert agents.table(arms, tmp_path / "table.md").read_text().splitlines() == [
        "|  | pick | all | score |",
        "| --- | ---: | ---: | ---: |",
        "| before training | 25.0 ± 0.0 | 20.0 ± 10.0 | 50.0 ± 10.0 |",
        "| FedAgent | 25.0 ± 0.0 | 60.0 ± 10.0 | 50.0 ± 10.0 |",
        "| alone | 25.0 ± 0.0 | 30.0 ± 10.0 | 50.0 ± 10.0 |",
    ]


def test_fedagent_smollm2_shows_its_seeds(tmp_path):
    """One line for each seed; the title claims nothing that is undecided."""
    arms = {smollm2.FEDERATED: outcome(0.3, 0.35, 0.5, apart=0.1, final=[[0.3], [0.7]])}
    with saved_figures() as figures:
        smollm2.draw(smollm2.Config(local_epochs=2), arms, tmp_path)
    assert lines(figures[0].axes[0]) == {
        "seed 0": ([0, 4, 8], pytest.approx([0.2, 0.25, 0.4])),
        "seed 1": ([0, 4, 8], pytest.approx([0.4, 0.45, 0.6])),
    }
    assert figures[0].get_suptitle() == "Undecided: FedAgent ends above the model it started from."
