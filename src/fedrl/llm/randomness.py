"""NumPy generators by address: an address names the purpose, so the order of calls does not matter."""

import zlib

import jax
import numpy as np

from fedrl.keys import Key


def generator_at(seed: int, *address: str | int) -> np.random.Generator:
    """The generator at `address` below `seed`; a word counts as its CRC-32, a number as itself."""
    words = tuple(zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in address)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=words)))


def generator_of(key: Key, word: str = "") -> np.random.Generator:
    """The generator of a JAX key, or of `word` below it."""
    data = np.asarray(jax.random.key_data(key)).ravel().tolist()
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([*data, *word.encode()])))
