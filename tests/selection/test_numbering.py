import time

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.keys import of_seed
from fedrl.selection.numbering import Names, cells, find, names, number, rounded, secret

SECRET = secret(of_seed(0))


def test_equal_rows_get_the_number_of_the_first():
    rows = np.random.default_rng(0).integers(-20, 20, (3000, 2)).astype(np.int32)
    counts = np.random.default_rng(1).random(3000) < 0.9
    first, table = jax.jit(number)(names(rows, SECRET), counts)
    trajectory: dict = {}
    for i in np.flatnonzero(counts):
        trajectory.setdefault(tuple(rows[i]), i)
    np.testing.assert_array_equal(
        first, [trajectory[tuple(r)] if c else 3000 for r, c in zip(rows, counts, strict=True)]
    )
    sought = np.random.default_rng(2).integers(-25, 25, (500, 2)).astype(np.int32)
    wanted = np.arange(500) % 7 > 0
    found = jax.jit(find)(table, names(sought, SECRET), wanted)
    expected = [trajectory.get(tuple(r), 3000) if w else 3000 for r, w in zip(sought, wanted, strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_rows_that_fight_for_one_slot():
    """Same first slot and same stride for all but one bit: only the comparison of names tells them apart."""
    high = jnp.arange(64, dtype=jnp.uint32) % 4 * jnp.uint32(2**20)
    first, _ = number(Names(high, jnp.full((64,), 7, jnp.uint32)), jnp.ones(64, bool))
    np.testing.assert_array_equal(first, np.arange(64) % 4)


def test_names_are_spread_and_know_the_order_and_what_is_above():
    grid = np.stack(np.meshgrid(np.arange(300), np.arange(300)), axis=-1).reshape(-1, 2).astype(np.int32)
    state = names(grid, SECRET)
    for word in state:
        assert len(np.unique(np.asarray(word))) > 90_000 - 20  # of 2^32: about one collision
    ones = jnp.ones((90_000, 1), jnp.int32)
    assert len({*zip(*map(np.asarray, names(ones, state)), strict=True)}) == 90_000


def test_cells_are_multiples_of_the_rounding():
    x = jnp.asarray([[0.24], [-0.26], [0.0], [-0.04]])
    np.testing.assert_array_equal(cells(x, 0.1), [[2], [-3], [0], [0]])
    np.testing.assert_allclose(rounded(x, 0.1), [[0.2], [-0.3], [0.0], [0.0]], atol=1e-7)
    np.testing.assert_array_equal(cells(jnp.arange(3), 0.1), [[0], [1], [2]])


def words(cells: np.ndarray, above: Names = SECRET) -> set[tuple]:
    return {*zip(*map(np.asarray, names(jnp.asarray(cells, jnp.int32), above)), strict=True)}


def test_rows_that_are_nearly_alike_have_names_of_their_own():
    """One cell of 400 moved by one or by one bit, two cells exchanged, two cells moved against each other."""
    base = np.random.default_rng(0).integers(-50, 50, 400)
    rows = [base]
    for i in range(400):
        for change in (1, -1, *(1 << bit for bit in (8, 20, 30))):
            rows.append(base.copy())
            rows[-1][i] += change
    for i in range(399):
        rows.append(base.copy())
        rows[-1][[i, i + 1]] += (1, -1)
        rows.append(base.copy())
        rows[-1][[i, i + 1]] = rows[-1][[i + 1, i]]
    rows = np.stack(rows)
    assert len(words(rows)) == len(np.unique(rows, axis=0))
    for word in names(jnp.asarray(rows, jnp.int32), SECRET):
        bits = np.unpackbits(np.asarray(word).view(np.uint8)).reshape(-1, 32)
        np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=0.06)  # of 2,800 fair coins; five deviations


def test_many_rows_have_as_many_words_as_chance_gives():
    """A million rows: in 2^32 words about 116 pairs of rows share one; in both words, none."""
    grid = np.stack(np.meshgrid(*[np.arange(100)] * 3), axis=-1).reshape(-1, 3)
    told = jax.jit(names)(jnp.asarray(grid, jnp.int32), SECRET)
    for word in told:
        assert 1_000_000 - len(np.unique(np.asarray(word))) < 200
    both = np.asarray(told.high).astype(np.uint64) << np.uint64(32) | np.asarray(told.low).astype(np.uint64)
    assert len(np.unique(both)) == 1_000_000


def test_another_secret_gives_other_names():
    grid = np.stack(np.meshgrid(np.arange(100), np.arange(100)), axis=-1).reshape(-1, 2)
    assert not words(grid) & words(grid, secret(of_seed(1)))


def test_the_program_does_not_grow_with_the_dimension():
    """An image of 84 x 84 x 4 is traced and compiled as quickly as a state of four numbers."""

    def sizes(columns: int) -> tuple[int, float]:
        start = time.process_time()
        program = jax.jit(names).lower(jax.ShapeDtypeStruct((8, columns), jnp.int32), SECRET)
        program.compile()
        return len(program.as_text().splitlines()), time.process_time() - start

    small, large = sizes(4), sizes(84 * 84 * 4)
    assert small[0] == large[0]
    assert large[1] < 5.0
