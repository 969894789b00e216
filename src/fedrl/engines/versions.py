"""What must be the same on all machines of a run: versions, and the settings of JAX that decide numbers."""

from importlib.metadata import version

import jax

from fedrl.engines.worker import NUMERIC_SETTINGS

PACKAGES = ("fedrl", "jax", "jaxlib", "numpy")


def about() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES} | {
        name: str(jax.config.values[name]) for name in NUMERIC_SETTINGS
    }
