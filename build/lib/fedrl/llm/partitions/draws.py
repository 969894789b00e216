"""Randomness by address for what is drawn with NumPy: named by what it is for, never by the order of the calls."""

import zlib

import numpy as np


def at(seed: int, *address: str | int) -> np.random.Generator:
    """The generator at `address` below `seed`; a word counts as its CRC-32, a number as itself."""
    words = tuple(zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in address)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=words)))
