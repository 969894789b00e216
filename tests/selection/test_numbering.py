import jax
import jax.numpy as jnp
import numpy as np

from fedrl.selection.numbering import Names, cells, find, names, number, rounded


def test_equal_rows_get_the_number_of_the_first():
    rows = np.random.default_rng(0).integers(-20, 20, (3000, 2)).astype(np.int32)
    counts = np.random.default_rng(1).random(3000) < 0.9
    first, table = jax.jit(number)(names(rows), counts)
    seen: dict = {}
    for i in np.flatnonzero(counts):
        seen.setdefault(tuple(rows[i]), i)
    np.testing.assert_array_equal(first, [seen[tuple(r)] if c else 3000 for r, c in zip(rows, counts, strict=True)])
    sought = np.random.default_rng(2).integers(-25, 25, (500, 2)).astype(np.int32)
    wanted = np.arange(500) % 7 > 0
    found = jax.jit(find)(table, names(sought), wanted)
    expected = [seen.get(tuple(r), 3000) if w else 3000 for r, w in zip(sought, wanted, strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_rows_that_fight_for_one_slot():
    """Same first slot and same stride for all but one bit: only the comparison of names tells them apart."""
    high = jnp.arange(64, dtype=jnp.uint32) % 4 * jnp.uint32(2**20)
    first, _ = number(Names(high, jnp.full((64,), 7, jnp.uint32)), jnp.ones(64, bool))
    np.testing.assert_array_equal(first, np.arange(64) % 4)


def test_names_are_spread_and_know_the_order_and_what_is_above():
    grid = np.stack(np.meshgrid(np.arange(300), np.arange(300)), axis=-1).reshape(-1, 2).astype(np.int32)
    state = names(grid)
    for word in state:
        assert len(np.unique(np.asarray(word))) > 90_000 - 20  # of 2^32: about one collision
    ones = jnp.ones((90_000, 1), jnp.int32)
    assert len({*zip(*map(np.asarray, names(ones, state)), strict=True)}) == 90_000


def test_cells_are_multiples_of_the_rounding():
    x = jnp.asarray([[0.24], [-0.26], [0.0], [-0.04]])
    np.testing.assert_array_equal(cells(x, 0.1), [[2], [-3], [0], [0]])
    np.testing.assert_allclose(rounded(x, 0.1), [[0.2], [-0.3], [0.0], [0.0]], atol=1e-7)
    np.testing.assert_array_equal(cells(jnp.arange(3), 0.1), [[0], [1], [2]])
