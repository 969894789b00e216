"""JAX's persistent compilation cache, on by default in the user's cache folder, so that the second run starts at once."""

import logging
import os
from pathlib import Path

import jax

from fedrl.cache_folder import cache_folder


def folder() -> Path:
    return cache_folder("compiled")


def enable() -> None:
    """Turn it on, unless the user configured it with JAX's own settings or the folder is not writable."""
    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] or not settings["jax_enable_compilation_cache"]:
        return
    try:
        folder().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        logging.getLogger(__name__).warning(
            "every start compiles anew because its cache folder cannot be made: %s", error
        )
        return
    if os.access(folder(), os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
