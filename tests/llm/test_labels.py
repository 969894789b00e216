"""Success labels: who wins what, kept in a file that can be gone on with, and read by those it is for (about 6 s of CPU)."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from support import tiny_agents as tiny

from fedrl.llm import labels
from fedrl.llm.applications import Application
from fedrl.llm.episodes import draw_noise, play
from fedrl.llm.evaluation import HELD_OUT_ACTING
from fedrl.llm.labels import LabelsError, label, read
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.model import load_theta
from fedrl.llm.partitions.hardness import hardness
from fedrl.llm.randomness import generator_at

SPEC = tiny.Tiny()
POOL = np.array([2, 3, 5, 7, 8, 9, 10, 12, 13, 14])


@dataclass(frozen=True)
class Colours:
    """Settings of an application of ten tasks."""

    shades: tuple[int, ...] = (1, 2)
    seed: int = 0

    def build(self) -> Application:
        nothing = np.array([], int)
        return Application(tiny.COLOURS_ENVIRONMENT, POOL, ["any"] * len(POOL), nothing, nothing, lambda task: [])


@pytest.fixture(autouse=True)
def _four_at_once(monkeypatch):
    monkeypatch.setattr(labels, "EPISODES_AT_ONCE", 4)


@pytest.fixture(scope="module")
def theta():
    return SPEC.first()


def alone(theta, task: int, n: int = 0, seed: int = 0) -> bool:
    """Whether the episode that is labelled is won where it is played on its own."""
    model = open_model(SPEC)
    load_theta(model, theta)
    noise = draw_noise(generator_at(seed, "label", task, n), 1, HELD_OUT_ACTING)
    return play(model, SPEC.formatter(), tiny.Colours, [task], 1, noise, HELD_OUT_ACTING)[0].won


def test_labels_say_who_won(theta, tmp_path):
    won = label(SPEC, theta, Colours(), tmp_path / "new" / "labels.json", by={"run": "here"})
    assert won == {task: float(alone(theta, task)) for task in POOL.tolist()}
    assert set(won.values()) == {0.0, 1.0}  # or nothing was tested
    content = json.loads((tmp_path / "new" / "labels.json").read_text())
    assert content["won"] == {str(task): bool(share) for task, share in won.items()}
    assert all(type(share) is bool for share in content["won"].values())
    assert content["application"] == {"name": "Colours", "shades": [1, 2], "seed": 0}
    assert (content["temperature"], content["episodes"], content["tasks"]) == (0.4, 1, 10)
    assert content["by"] == {"run": "here"}


def test_several_episodes_give_shares(theta, tmp_path):
    file = tmp_path / "labels.json"
    won = label(SPEC, theta, Colours(), file, episodes=3, seed=5)
    assert won == {t: pytest.approx(np.mean([alone(theta, t, n, 5) for n in range(3)])) for t in POOL.tolist()}
    shares = np.array([won[task] for task in POOL.tolist()])
    assert ((shares > 0) & (shares < 1)).any()
    for least in (0.3, 0.5, 1.0):
        np.testing.assert_array_equal(read(file, Colours(), POOL, least=least), shares >= least)


def test_stopped_it_goes_on_and_ends_with_the_same_bytes(theta, tmp_path):
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    label(SPEC, theta, Colours(), whole)

    def stop(won):
        if len(won) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label(SPEC, theta, Colours(), parts, callback=stop)
    assert len(json.loads(parts.read_text())["won"]) == 8
    with pytest.raises(LabelsError, match=r"has no labels of 2 of 10 tasks \(13, 14\); the same `fedrl agents label`"):
        read(parts, Colours(), POOL)
    np.testing.assert_array_equal(read(parts, Colours(), POOL[:8]), read(whole, Colours(), POOL[:8]))
    seen = []
    label(SPEC, theta, Colours(), parts, callback=lambda won: seen.append(len(won)))
    assert seen == [8, 10]  # nothing is played twice
    assert parts.read_bytes() == whole.read_bytes()
    made = whole.stat().st_mtime_ns
    label(SPEC, theta, Colours(), whole)
    assert whole.stat().st_mtime_ns == made


def test_other_labels_are_not_mixed(theta, tmp_path):
    file = tmp_path / "labels.json"
    label(SPEC, theta, Colours(), file)
    before = file.read_bytes()
    other = {name: value + 1e-3 for name, value in theta.items()}
    for call, said in (
        (lambda: label(SPEC, other, Colours(), file), "theta is"),
        (lambda: label(SPEC, theta, Colours(), file, episodes=2), "episodes is 1 there, 2 here"),
        (lambda: label(SPEC, theta, Colours(), file, seed=1), "seed is 0 there, 1 here"),
        (lambda: label(SPEC, theta, Colours(seed=4), file), "seed is 0 there, 4 here"),
    ):
        with pytest.raises(LabelsError, match=f"has other labels .*{said}.*; pass another --out, or remove this file"):
            call()
    assert file.read_bytes() == before
    with pytest.raises(LabelsError, match="at least 1 episode of each task, got 0"):
        label(SPEC, theta, Colours(), tmp_path / "none.json", episodes=0)


def test_read_is_aligned_with_the_pool_and_what_hardness_wants(theta, tmp_path):
    file = tmp_path / "labels.json"
    won = label(SPEC, theta, Colours(), file)
    order = POOL[::-1]
    solved = read(file, Colours(), order)
    assert solved.dtype == bool
    assert solved.tolist() == [won[task] == 1 for task in order.tolist()]
    assert 0 < solved.sum() < len(order)
    parts = hardness(solved, clients=3, tasks_each=2, xi=1.0, seed=0)
    assert [len(part) for part in parts] == [2, 2, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "there are no labels in .*, no such file; make it with `fedrl agents label RUN --out "),
        ("{", "is not valid JSON"),
        ("[1]", "is no file of labels"),
        ('{"application": {}}', "is no file of labels"),
        ('{"application": 1, "won": {}}', "is no file of labels"),
        ('{"application": {}, "won": {"2": "yes"}}', "is no file of labels"),
        (
            '{"application": {"name": "Colours"}, "won": {}}',
            r"another application \(shades is None there, \[1, 2\] here",
        ),
        (
            '{"application": {"name": "Colours", "shades": [1, 2], "seed": 0}, "won": {"2": true}}',
            r"no labels of 9 of 10 tasks \(3, 5, 7, …\)",
        ),
    ],
)
def test_what_cannot_be_read(tmp_path, text, expected):
    file = tmp_path / "labels.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(LabelsError, match=expected):
        read(file, Colours(), POOL)


def test_a_share_that_counts_for_nothing():
    with pytest.raises(LabelsError, match="least must be a share above 0 and at most 1, got 0"):
        read("labels.json", Colours(), POOL, least=0)
