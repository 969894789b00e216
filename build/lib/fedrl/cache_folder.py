"""Where things are kept that can be made again: compiled programs, SUMO's networks, small models."""

import os
from pathlib import Path


def cache_folder(what: str) -> Path:
    """The folder for `what` in the user's cache; not made yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedrl" / what
