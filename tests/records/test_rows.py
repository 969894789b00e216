"""What a measurement leaves in the log: returns, and whatever else it says."""

import numpy as np

from fedrl.records.rows import MOST_SEEDS, measured

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
    row = measured(METRICS)
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


def test_arrays_keep_their_shape():
    row = measured(METRICS | {"measure/levels": np.array([[1.0, 2.0], [3.0, 4.0]])})
    np.testing.assert_array_equal(row["levels"], [2.0, 3.0])
    assert row["levels_by_seed"].shape == (2, 2)


def test_many_seeds_are_only_averaged():
    many = {name: np.concatenate([value] * MOST_SEEDS) for name, value in METRICS.items()}
    row = measured(many)
    np.testing.assert_allclose(row["score"], 0.8)
    assert not any(name.endswith("_by_seed") for name in row)


def test_a_round_that_was_not_measured_says_nothing():
    assert measured(METRICS | {"measure/return": np.full(2, np.nan)}) == {}
