"""Randomness by address: round / exchange / client / step, never by the order in which things happen to run.

A key is derived from its parent by naming its purpose, so adding a phase, reordering a cohort or resuming in the middle
changes no other draw.
"""

import zlib

import jax
from jax import Array

Key = Array


def of(key: Key, *address: str | int | Array) -> Key:
    """The key at `address` below `key`; a word counts as its CRC-32, a number as itself."""
    for part in address:
        key = jax.random.fold_in(key, zlib.crc32(part.encode()) if isinstance(part, str) else part)
    return key


def of_seed(seed: int) -> Key:
    return jax.random.key(seed)


def seed_of(key: Key) -> int:
    """The seed that `of_seed` made this key of."""
    return int(jax.random.key_data(key)[-1])
