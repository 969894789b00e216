"""Strictness for every test: promotion of dtype or rank is an error, as are warnings (pyproject.toml)."""

import jax

from fedrl.engines import cache

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
cache.enable()
