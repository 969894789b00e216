"""Moments of all clients together: exactly those of all their numbers; robust where the rule is."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.aggregation.mean import mean
from fedrl.aggregation.median import median
from fedrl.aggregation.moments import pool
from fedrl.policies import filtered as filters
from fedrl.policies.filtered import Moments
from fedrl.types import Cohort

CLIENTS = 3


def moments_of(rows: np.ndarray) -> Moments:
    return filters.update(
        filters.empty_moments(rows.shape[1]), jnp.asarray(rows, jnp.float32), jnp.ones(len(rows), jnp.float32)
    )


def stack(parts: list[np.ndarray]) -> Moments:
    return jax.tree.map(lambda *x: jnp.stack(x), *map(moments_of, parts))


def cohort(present: list[bool], weight: list[float] | None = None) -> Cohort:
    count = len(present)
    weight = weight or [1.0 / count] * count
    return Cohort(jnp.arange(count), jnp.asarray(weight), jnp.asarray(present), jnp.zeros(count, jnp.int32))


def check(found: Moments, rows: np.ndarray) -> None:
    assert float(found.total) == len(rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found.squares, ((rows - rows.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-3, atol=1e-3)


@jax.jit
def pooled(rows, weight):
    """Of clients' rows [c, n, size], as many of each as `weight` [c, n] says."""
    each = jax.vmap(lambda x, w: filters.update(filters.empty_moments(2), x, w))(rows, weight)
    return pool(each, cohort([True] * CLIENTS), mean)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=CLIENTS, max_size=CLIENTS),
    st.sampled_from([0.0, 1.0, -30.0, 1e3, -1e4]),
    st.integers(0, 99),
)
def test_the_sum_is_that_of_all_numbers_whatever_their_offset(sizes, offset, seed):
    rows = offset + np.random.default_rng(seed).normal(np.arange(CLIENTS)[:, None, None], 2.0, (CLIENTS, 40, 2))
    counts = np.arange(40)[None, :] < np.array(sizes)[:, None]
    found = pooled(jnp.asarray(rows, jnp.float32), jnp.asarray(counts, jnp.float32))
    seen = rows.astype(np.float32)[counts].astype(np.float64)
    assert float(found.total) == len(seen)
    if len(seen) > 1:
        np.testing.assert_allclose(found.mean, seen.mean(axis=0), rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(filters.deviation(found), seen.std(axis=0, ddof=1), rtol=5e-3)


def test_who_is_absent_does_not_count_and_weights_do_not_matter():
    random = np.random.default_rng(0)
    parts = [random.normal(i, 1.0, (10 + i, 3)) for i in range(3)]
    found = pool(stack(parts), cohort([True, False, True], [0.7, 0.2, 0.1]), mean)
    check(found, np.concatenate([parts[0], parts[2]]))
    nobody = pool(stack(parts), cohort([False] * 3), mean)
    assert not any(float(jnp.abs(x).max()) for x in nobody)


def test_the_median_is_not_moved_by_a_liar():
    random = np.random.default_rng(1)
    honest = [random.normal(5.0, 2.0, (200, 1)) for _ in range(4)]
    lie = Moments(jnp.float32(200), jnp.full((1,), 1e6), jnp.full((1,), 1e12))
    uploads = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), stack(honest), lie)
    found = pool(uploads, cohort([True] * 5), median)
    assert abs(float(found.mean[0]) - 5.0) < 0.5
    assert 1.5 < float(filters.deviation(found)[0]) < 2.5
    assert float(pool(uploads, cohort([True] * 5), mean).mean[0]) > 1e5


def test_merging_is_pooling():
    random = np.random.default_rng(2)
    some, more = random.normal(3.0, 1.0, (50, 2)), random.normal(-3.0, 4.0, (20, 2))
    check(filters.merge(moments_of(some), moments_of(more)), np.concatenate([some, more]))
    for a, b in zip(filters.merge(filters.empty_moments(2), moments_of(more)), moments_of(more), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
