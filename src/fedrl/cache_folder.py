"""Location of caches: compiled programs, SUMO networks, small models. Simulator processes import this without JAX."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder `name` in the user's cache; the caller creates it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedrl" / name
