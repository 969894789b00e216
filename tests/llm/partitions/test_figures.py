"""The figures are drawn, and show what they say; 5 s."""

import matplotlib.image
import numpy as np
import pytest

from fedrl.llm.partitions import figures
from fedrl.llm.partitions.checks import PartitionError
from fedrl.llm.partitions.coverage import coverage
from fedrl.llm.partitions.hardness import hardness
from fedrl.llm.partitions.preference import preference
from fedrl.plots import style

KINDS = np.repeat(["Pick", "Look", "Heat"], [60, 30, 10])


@pytest.fixture
def drawn(monkeypatch):
    """The figures as they are saved, while they are still open."""
    seen = []
    save = style.save

    def keep(figure, path, title):
        seen.append([[bar.get_height() for bar in axes.patches] for axes in figure.axes])
        seen.append([[bar.get_y() + bar.get_height() for bar in axes.patches] for axes in figure.axes])
        seen.append([text.get_text() for legend in figure.legends for text in legend.get_texts()])
        return save(figure, path, title)

    monkeypatch.setattr(style, "save", keep)
    return seen


def test_categories(tmp_path, drawn):
    arms = {"ω = 0.1": preference(KINDS, 5, 20, 0.1, 0), "ω = 0.9": preference(KINDS, 5, 20, 0.9, 0)}
    path = figures.categories_of_clients(arms, KINDS, tmp_path / "a" / "shares.png", title="Preference")
    assert matplotlib.image.imread(path).std() > 0.1
    heights, tops, names = drawn
    assert names == ["Pick", "Look", "Heat"]
    for row, top, partition in zip((heights[0:2], heights[2:4]), (tops[0], tops[2]), arms.values(), strict=True):
        shares = np.array([[np.mean(KINDS[mine] == kind) for mine in partition] for kind in names])
        np.testing.assert_allclose(row[0], shares.ravel())
        np.testing.assert_allclose(top, shares.cumsum(axis=0).ravel())
        np.testing.assert_allclose(row[1], [0.6, 0.3, 0.1])


def test_more_categories_than_colours(tmp_path, drawn):
    labels = np.repeat([f"kind {i:02d}" for i in range(12)], np.arange(20, 8, -1))
    figures.categories_of_clients({"": preference(labels, 4, 30, 0.5, 0)}, labels, tmp_path / "many.png")
    heights, tops, names = drawn
    assert names == [*(f"kind {i:02d}" for i in range(7)), figures.OTHERS]
    np.testing.assert_allclose(np.sum(heights[0]), 4.0)
    np.testing.assert_allclose(tops[0][-4:], 1.0)


def test_sizes_and_success(tmp_path, drawn):
    sizes = coverage(60, 6, 0.5, 0, bounds=(0, 20, 60))
    figures.sizes_of_clients({"ξ = 0.5": sizes}, tmp_path / "sizes.png")
    assert drawn[0][0] == [len(mine) for mine in sizes]
    solved = np.arange(60) % 2 == 0
    mixed = hardness(solved, 6, 20, 1.0, 0)
    figures.success_of_clients({"ξ' = 1": mixed, "none": [np.arange(0)] * 6}, solved, tmp_path / "success.svg")
    np.testing.assert_allclose(drawn[3][0], [solved[mine].mean() for mine in mixed])
    assert drawn[3][2] == [0.0] * 6
    assert (tmp_path / "success.svg").stat().st_size > 1000


def test_labels_of_another_pool(tmp_path):
    with pytest.raises(PartitionError, match="categories has 100 labels but a client has task 199"):
        figures.categories_of_clients({"": [np.array([3, 199])]}, KINDS, tmp_path / "no.png")
