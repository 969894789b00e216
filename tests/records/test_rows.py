"""What a measurement leaves in the log: returns, and whatever else it says."""

import numpy as np

from fedrl.records.rows import diverged, evaluated

METRICS = {
    "measure/return": np.array([0.5, 1.0]),
    "measure/returns": np.array([[0.0, 1.0], [1.0, 1.0]]),
    "measure/score": np.array([0.6, 1.0]),
    "measure/success/pick": np.array([0.25, 0.75]),
    "measure/answered": np.array([2, 2]),
    "measure/env_steps": np.array([0, 0]),
    "train/update_norm": np.array([1.0, 1.0]),
}


def test_everything_measured_by_its_name():
    row = evaluated(METRICS)
    assert row["return"] == 0.75
    assert row["score"] == 0.8
    np.testing.assert_array_equal(row["score_by_seed"], [0.6, 1.0])
    assert row["success/pick"] == 0.5
    np.testing.assert_array_equal(row["success/pick_by_seed"], [0.25, 0.75])
    assert row["worst"] == 0.5
    assert set(row) == {
        "return", "seeds", "return_se", "return_by_seed", "returns", "worst",
        "score", "score_by_seed", "success/pick", "success/pick_by_seed",
    }  # fmt: skip


def test_the_standard_error_of_the_mean_over_seeds():
    """Returns 0.5 and 1: deviation sqrt(0.125), over sqrt(2). Four seeds: deviation sqrt(36 / 3), over 2."""
    np.testing.assert_allclose(evaluated(METRICS)["return_se"], 0.25)
    four = {"measure/return": np.array([0.0, 0.0, 6.0, 6.0]), "measure/returns": np.zeros((4, 1))}
    np.testing.assert_allclose(evaluated(four)["return_se"], 3.0**0.5)
    assert "return_se" not in evaluated({"measure/return": np.ones(1), "measure/returns": np.ones((1, 1))})


def test_arrays_keep_their_shape():
    row = evaluated(METRICS | {"measure/levels": np.array([[1.0, 2.0], [3.0, 4.0]])})
    np.testing.assert_array_equal(row["levels"], [2.0, 3.0])
    assert row["levels_by_seed"].shape == (2, 2)


def test_any_number_of_seeds_is_kept():
    row = evaluated({name: np.concatenate([value] * 50) for name, value in METRICS.items()})
    np.testing.assert_allclose(row["score"], 0.8)
    assert {name: len(value) for name, value in row.items() if name.endswith("_by_seed")} == {
        "return_by_seed": 100,
        "score_by_seed": 100,
        "success/pick_by_seed": 100,
    }


def test_of_a_diverged_run_nothing_measured_is_a_number():
    """Also what only some measurements say, and the spread of the returns: nothing of an earlier round stays."""
    before = evaluated(METRICS)
    rows = [before, {"round": 1, "train/update_norm": 3.0}]
    row = diverged(rows, seeds=2, clients=before["returns"].size)
    assert row.keys() == before.keys()
    assert row.pop("seeds") == 2
    assert all(np.isnan(value).all() for value in row.values())
    assert {name: np.shape(value) for name, value in row.items()} == {name: np.shape(before[name]) for name in row}
    assert len(diverged([], seeds=100, clients=3)["return_by_seed"]) == 100


def test_a_round_that_was_not_measured_says_nothing():
    assert evaluated(METRICS | {"measure/return": np.full(2, np.nan)}) == {}
