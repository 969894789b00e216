"""The weighted mean, by numbers computed by hand."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.aggregation.mean import mean, stack
from fedrl.trees import weighted_sum
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


def test_where_the_last_axis_is_short_a_large_stack_takes_no_longer():
    """As a table of many states and few actions, or the factors of an adapter; it was 300 times as long."""
    table = np.random.default_rng(0).normal(size=(2, 300_000, 4)).astype(np.float32)
    weight = jnp.asarray([0.25, 0.75])
    sums, seconds = {}, {}
    for name, uploads in {"table": jnp.asarray(table), "row": jnp.asarray(table.reshape(2, -1))}.items():
        combined = jax.jit(weighted_sum)
        sums[name] = np.asarray(combined(weight, uploads)).reshape(-1)  # compiles
        times = []
        for _ in range(5):
            began = time.perf_counter()
            jax.block_until_ready(combined(weight, uploads))
            times.append(time.perf_counter() - began)
        seconds[name] = min(times)
    np.testing.assert_allclose(sums["table"], (0.25 * table[0] + 0.75 * table[1]).reshape(-1), rtol=1e-5, atol=1e-6)
    assert sums["table"].tobytes() == sums["row"].tobytes()
    assert seconds["table"] < 30 * seconds["row"] + 0.05
