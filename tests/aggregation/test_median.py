"""The median of every coordinate, over those present."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.aggregation.median import median
from fedrl.types import Cohort


def cohort(present: list[bool]) -> Cohort:
    count = len(present)
    return Cohort(jnp.arange(count), jnp.linspace(0.1, 0.9, count), jnp.array(present), jnp.zeros(count, jnp.int32))


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=7).filter(any), st.integers(0, 99))
def test_against_numpy(present, seed):
    values = np.random.default_rng(seed).normal(size=(len(present), 2, 3)).astype(np.float32)
    found = median({"a": jnp.asarray(values), "b": jnp.asarray(values[:, 0, 0])}, cohort(present))
    np.testing.assert_allclose(found["a"], np.median(values[present], axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["b"], np.median(values[present, 0, 0]), rtol=1e-6)


def test_a_minority_does_not_move_it():
    values = jnp.array([1.0, 1e30, 2.0, -1e30, 3.0])
    assert float(median(values, cohort([True] * 5))) == 2.0


def test_nobody():
    assert float(median(jnp.array([1.0, 2.0]), cohort([False, False]))) == 0.0
