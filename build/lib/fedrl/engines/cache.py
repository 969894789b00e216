"""JAX's persistent compilation cache, on by default in the user's cache folder: the second run starts at once."""

import logging
import os
from pathlib import Path

import jax

from fedrl.cache_folder import cache_folder


def folder() -> Path:
    return cache_folder("compiled")


def enable() -> None:
    """Turn it on, unless the user chose a place (or none) by JAX's own setting or the folder cannot be written."""
    chosen = jax.config.values
    if chosen["jax_compilation_cache_dir"] or not chosen["jax_enable_compilation_cache"]:
        return
    try:
        folder().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        logging.getLogger(__name__).warning("every start compiles anew, the cache folder cannot be made: %s", error)
        return
    if os.access(folder(), os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
