"""What a user writes: flat packages, listed by `dir`, imported when first used."""

import subprocess
import sys
from importlib import import_module

import pytest

import fedrl

PACKAGES = [
    "aggregation", "algorithms", "channels", "engines", "environments", "experiments", "learners", "llm", "policies",
    "selection", "theory",
]  # fmt: skip
MODULES = ["evaluation", "faults", "recipes", "types"]


def in_new_interpreter(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def test_dir_lists_what_there_is_and_nothing_else():
    assert set(PACKAGES) < set(dir(fedrl))
    assert {"Federation", "gymnasium", "load", "train"} < set(dir(fedrl))
    assert not {"Any", "TYPE_CHECKING", "import_module"} & set(dir(fedrl))
    assert fedrl.__version__[0].isdigit()


@pytest.mark.parametrize("package", PACKAGES + MODULES)
def test_every_name_of_a_package_is_there(package):
    module = getattr(fedrl, package)
    assert dir(module) == sorted(module.__all__)  # dir sorts
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError):
        module.no_such_name  # noqa: B018


def test_a_function_stays_in_front_of_the_file_of_its_name():
    """Importing `fedrl.algorithms.fedavg` by its whole path must not put the file in the place of the function."""
    code = f"""
import pkgutil, types
from importlib import import_module
for package in {PACKAGES!r}:
    front = import_module(f"fedrl.{{package}}")
    for name in [it.name for it in pkgutil.iter_modules(front.__path__) if it.name in front.__all__]:
        import_module(f"fedrl.{{package}}.{{name}}")
        if package not in ("experiments", "theory"):  # modules are what a user writes there
            assert not isinstance(getattr(front, name), types.ModuleType), (package, name)
            print(name)
"""
    assert {"fedavg", "fused", "mean", "ppo", "fedpohcs"} < set(in_new_interpreter(code).split())


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(AttributeError, match="no attribute 'trian'; it has .*train"):
        import_module("fedrl").trian  # noqa: B018


def test_importing_the_package_imports_nothing_heavy():
    heavy = "jax", "numpy", "optax", "matplotlib", "torch", "gymnasium"
    loaded = in_new_interpreter(f"import sys, fedrl; dir(fedrl); print([x for x in {heavy} if x in sys.modules])")
    assert loaded == "[]"


def test_the_readme_front_door_needs_no_extra():
    """Packages, all their names without extras, in an interpreter that cannot import the extras."""
    code = """
import sys
for extra in ("mujoco", "libsumo", "torch", "transformers", "ray", "flwr", "pettingzoo"):
    sys.modules[extra] = None
import fedrl
from fedrl import aggregation, algorithms, channels, engines, environments, learners, policies, selection, theory
environments.cart_pole(), environments.dense_mdps(5, 5, kappa=0.5)
algorithms.fedavg(learners.ppo(), selection=selection.uniform(2))
try:
    environments.hopper
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert in_new_interpreter(code) == "mujoco"
