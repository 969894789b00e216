"""The weighted mean, by numbers computed by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.aggregation.mean import mean, stack
from fedrl.types import Cohort

UPLOADS = {"x": jnp.asarray([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]), "y": jnp.asarray([8.0, 4.0, 0.0])}


def cohort(*present: bool, weight: tuple[float, ...] = (0.5, 0.25, 0.25)) -> Cohort:
    return Cohort(jnp.arange(3), jnp.asarray(weight), jnp.asarray(present), jnp.zeros(3, jnp.int32))


@pytest.mark.parametrize(
    ("present", "x", "y"),
    [
        ((True, True, True), [2.0, 20.0], 5.0),
        ((False, True, True), [3.0, 30.0], 2.0),  # each of the two counts one half now
        ((True, True, False), [4.0 / 3.0, 40.0 / 3.0], 20.0 / 3.0),  # two thirds and one third
        ((False, False, True), [4.0, 40.0], 0.0),
        ((False, False, False), [0.0, 0.0], 0.0),
    ],
)
def test_weights_are_renormalised_to_those_present(present, x, y):
    got = mean(UPLOADS, cohort(*present))
    np.testing.assert_allclose(got["x"], x, rtol=1e-6)
    np.testing.assert_allclose(got["y"], y, rtol=1e-6)


def test_weights_need_not_sum_to_one():
    np.testing.assert_allclose(mean(UPLOADS, cohort(True, True, True, weight=(2.0, 1.0, 1.0)))["y"], 5.0)


def test_a_stack_is_kept():
    assert stack(UPLOADS, cohort(True, False, True)) is UPLOADS
