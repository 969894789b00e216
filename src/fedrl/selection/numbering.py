"""Numbers for rounded states and state-action pairs: each gets a 64-bit name, and equal names get the same number.

A name is a hash of the cells, keyed by a secret that the clients share: the same pair has the same name at every client, so
the server can match their uploads, and without the secret nobody can look names up in a list made in advance. In
simulation the server draws the secret itself, so it could make such a list; and the hash is quick, not cryptographic.

The number of a name is the row where it first occurs, found by hashing with open addressing, at a tenth of the cost of
sorting.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.keys import Key

EMPTY = np.iinfo(np.int32).max
GOLDEN = np.uint32(0x9E3779B9)  # 2^32 / the golden ratio: its multiples are spread evenly


class Names(NamedTuple):
    """[M] each. Different states or pairs share both words with probability 2^-64."""

    high: Array  # uint32
    low: Array


class Table(NamedTuple):
    slots: Array  # [power of two] row + M * (attempt at which it was placed), or EMPTY
    names: Names  # of the rows


def cells(x: Any, rounding: float) -> Array:
    """x [M, ...] as whole numbers [M, n]: multiples of `rounding`, or x itself where it is finite."""
    flat = x.reshape(x.shape[0], -1)
    return (
        flat.astype(jnp.int32) if jnp.issubdtype(x.dtype, jnp.integer) else jnp.rint(flat / rounding).astype(jnp.int32)
    )


def rounded(x: Any, rounding: float) -> Any:
    """x rounded to the middle of its cell."""
    return x if jnp.issubdtype(x.dtype, jnp.integer) else rounding * jnp.rint(x / rounding)


def secret(key: Key) -> Names:
    """Two words [] that key all names of a comparison."""
    return Names(*jax.random.bits(key, (2,), jnp.uint32))


def names(cells: Array, above: Names) -> Names:
    """Names of the rows of cells [M, n]; `above` is the secret, or for actions the names of their states.

    Every column has a hash function of its own, drawn by the position of the column, and the name mixes their sum: one
    reduction, however many columns there are.
    """
    words = jax.lax.bitcast_convert_type(cells, jnp.uint32)
    place = jnp.arange(1, cells.shape[1] + 1, dtype=jnp.uint32)[None]

    def fold(above: Array, salt: int) -> Array:
        column = _mix(place * GOLDEN + jnp.uint32(salt))
        above = jnp.broadcast_to(above, cells.shape[:1])
        each = _mix(_mix(words ^ column) + _mix(above ^ jnp.uint32(salt))[:, None] + column * GOLDEN)
        return _mix(above + jnp.sum(each, axis=1, dtype=jnp.uint32))

    return Names(fold(above.high, 0xCC9E2D51), fold(above.low, 0x1B873593))


def number(names: Names, counts: Array) -> tuple[Array, Table]:
    """For each row the first row [M] of the same name, or M if the row does not count; and the table that `find` searches.

    All rows of one name try the same slots at the same attempts. The lowest row of the earliest attempt takes a slot.
    """
    size = names.high.shape[0]
    rows = jnp.arange(size, dtype=jnp.int32)
    slots = jnp.full((1 << (4 * size - 1).bit_length(),), EMPTY, jnp.int32)

    def waiting(carry: tuple[Array, Array, Array]) -> Array:
        return jnp.any(carry[2] < 0)

    def attempt(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tries, slots, first = carry
        slot = _slot(names, tries, slots.shape[0])
        slots = slots.at[slot].min(jnp.where(first < 0, rows + size * tries, EMPTY))
        holder = slots[slot] % size
        return tries + 1, slots, jnp.where((first < 0) & _same(names, _at(names, holder)), holder, first)

    first = jnp.where(counts, -1, size).astype(jnp.int32)
    _, slots, first = jax.lax.while_loop(waiting, attempt, (jnp.int32(0), slots, first))
    return first, Table(slots, names)


def find(table: Table, sought: Names, wanted: Array) -> Array:
    """The number of each name in `sought`; M if it is not in the table or not `wanted`."""
    size = table.names.high.shape[0]

    def attempt(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        tries, found = carry
        held = table.slots[_slot(sought, tries, table.slots.shape[0])]
        holder = held % size
        answer = jnp.where(_same(sought, _at(table.names, holder)), holder, -1)
        return tries + 1, jnp.where(found < 0, jnp.where(held == EMPTY, size, answer), found)

    unknown = jnp.where(wanted, -1, size).astype(jnp.int32)
    numbers: Array = jax.lax.while_loop(lambda carry: jnp.any(carry[1] < 0), attempt, (jnp.int32(0), unknown))[1]
    return numbers


def _slot(names: Names, tries: Array, slots: int) -> Array:
    """Double hashing: the odd stride visits every slot of a power of two."""
    there = names.high + tries.astype(jnp.uint32) * (names.low | jnp.uint32(1))
    slot: Array = (there & jnp.uint32(slots - 1)).astype(jnp.int32)
    return slot


def _same(a: Names, b: Names) -> Array:
    return (a.high == b.high) & (a.low == b.low)


def _at(names: Names, rows: Array) -> Names:
    return Names(names.high[rows], names.low[rows])


def _mix(word: Array) -> Array:
    """The finaliser of MurmurHash3: every bit of the word reaches every bit of the result."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
