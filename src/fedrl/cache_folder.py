"""Location of the user's own files: caches (compiled programs, SUMO networks, small models) and what must outlive them.

Simulator processes import this without JAX.
"""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder `name` in the user's cache; the caller creates it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedrl" / name


def config_folder() -> Path:
    """The folder of fedrl's settings for this user; the caller creates it."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "fedrl"
