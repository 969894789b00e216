"""Strictness for every test: promotion of dtype or rank is an error, as are warnings (pyproject.toml)."""

import os

# Some virtual machines announce Intel's AMX and do not have it: bfloat16 would die of an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

from fedrl.cache_folder import cache_folder

# Compiling is most of what the tests do: they and all processes they start share one cache of programs, small ones too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder("compiled-by-tests")))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

from pathlib import Path

import cloudpickle
import jax
import pytest

from fedrl.engines import processes
from fedrl.rollouts import host

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


# Most of their time is compiling, and they compare nothing to the bit: less optimised programs will do (a third faster).
SKETCHED = {"cli", "experiments", "plots", "recipes"}


@pytest.fixture(scope="module", autouse=True)
def _sketch(request):
    """Compile with few optimisations in the folders above, and in the processes their tests start."""
    if Path(request.module.__file__).relative_to(Path(__file__).parent).parts[0] not in SKETCHED:
        yield
        return
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        yield
    jax.config.update("jax_disable_most_optimizations", False)
    processes.stop()  # workers that compile so must not work for other files, whose bits are compared


@pytest.fixture(scope="module", autouse=True)
def _forget():
    """Programs of other files are of no use: thousands of them made a process 5 GB large and its tests many times slower."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def travelling(request):
    """Other processes cannot import a test module, so what it defines travels whole, as from a user's script."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
    processes.stop()
    host.close_all()
