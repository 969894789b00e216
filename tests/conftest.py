"""Strictness for every test: promotion of dtype or rank is an error, as are warnings (pyproject.toml)."""

import gc
import os

# Some virtual machines announce Intel's AMX and do not have it: bfloat16 would die of an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

from fedrl.cache_folder import cache_folder

# The secret that signs experiments of tests is not the user's own.
os.environ["XDG_CONFIG_HOME"] = str(cache_folder("settings-of-tests"))

# Compiling is most of what the tests do: they and all processes they start share one cache of programs, small ones too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder("compiled-by-tests")))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

# The lines of source that operations come from, which only profiles show, cost a tenth of the time.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

import resource
from pathlib import Path

import cloudpickle
import jax
import pytest

from fedrl.engines import local_processes
from fedrl.rollouts import host

# Compiling fills the memory with objects that stay: looking for garbage as often as usual costs a sixth of the time.
gc.set_threshold(100_000, 20, 50)
LARGE = 3 << 20  # KiB: processes that have become so large forget

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


# Most of their time is compiling, and they compare nothing to the bit: less optimised programs will do (a third faster).
SKETCHED = {"cli", "experiments", "plots", "recipes", "test_docs_blocks.py"}


# Left out of `make test-fast`: they kill processes, start servers, sample very many episodes, or train and compile for long.
# They start first, in this order, the longest before the others: no core is idle at the end.
SLOW = [
    "test_docs_blocks.py",
    "engines/test_ray_two_hosts.py",
    "engines/test_ray.py",
    "engines/test_engines.py",
    "test_benchmarks.py",
    "selection/test_fedpohcs.py",
    "organisations/test_served.py",
    "flower/test_run.py",
    "cli/test_app.py",
    "flower/test_llm_run.py",
    "recipes/test_xie2025.py",
    "engines/test_local_processes.py",
    "cli/test_agents.py",
    "test_resume.py",
    "algorithms/test_fapi.py",
    "test_resume_agents.py",
    "learners/test_ppo.py",
    "rollouts/test_shared.py",
    "algorithms/test_fapi_networks.py",
    "algorithms/test_fedhapg_m.py",
    "learners/test_trajectory_memory.py",
    "learners/test_trpo.py",
    "test_faults.py",
    "recipes/test_labbi2025.py",
    "learners/test_tac.py",
    "llm/test_learner.py",
    "cli/test_play_traffic.py",
    "policies/test_saved.py",
    "examples/test_programs.py",
    "recipes/test_fedagent.py",
    "types/test_installed.py",
    "recipes/test_xu2024_table4.py",
    "cli/test_own_recipes.py",
    "environments/traffic/test_figure_eight.py",
    "engines/test_faults_of_workers.py",
    "learners/test_hapg.py",
    "recipes/test_wang2024_drift.py",
    "learners/test_safeguards.py",
    "cli/test_evaluate.py",
    "recipes/test_xu2024.py",
    "federations/test_user_environments.py",
    "examples/test_notebooks.py",
    "federations/test_pettingzoo_envs.py",
    "learners/test_estimators.py",
    "theory/test_fapi.py",
    "cli/test_play.py",
    "engines/test_ray_closed.py",
    "recipes/test_xie2025_roads.py",
    "algorithms/test_federated.py",
    "llm/test_adapters.py",
    "recipes/test_wang2024_deep.py",
    "federations/test_osm.py",
    "environments/tabular/test_solvers.py",
    "environments/tabular/test_random_mdp.py",
    "experiments/test_personalisation.py",
    "cli/test_new.py",
    "selection/test_tabular.py",
    "llm/models/test_behaviour_cloning.py",
    "test_docs.py",
    "recipes/test_wang2024.py",
    "cli/test_personalise.py",
    "records/test_run_identity.py",
    "cli/test_resume_train.py",
    "cli/test_export.py",
    "llm/test_prompt.py",
    "learners/test_actor_critic.py",
    "llm/models/test_pretrained.py",
    "environments/traffic/osm/test_roads.py",
]


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    slow = {here / name: place for place, name in enumerate(SLOW)}
    if missing := [str(path) for path in slow if not path.exists()]:
        raise pytest.UsageError(f"tests/conftest.py lists as slow what is not there: {', '.join(missing)}")
    for item in items:
        if item.path in slow:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: slow.get(item.path, len(slow)))


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
    local_processes.stop()  # workers that compile so must not work for other files, whose bits are compared


@pytest.fixture(scope="module", autouse=True)
def _forget():
    """A process that has become large forgets the programs of each file: thousands of them fill the memory."""
    yield
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > LARGE:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="module")
def travelling(request):
    """Other processes cannot import a test module, so what it defines travels whole, as from a user's script."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
    local_processes.stop()
    host.close_all()
