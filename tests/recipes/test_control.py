"""The control recipes: they build, and the claim follows the numbers (about 1 s)."""

import numpy as np
import pytest

from fedrl.experiments import find
from fedrl.experiments.recipe import Outcome
from fedrl.recipes.control import ARM

WANTED = {"cart-pole": 475.0, "hopper": 1000.0, "mountain-car": 90.0}


def found(name: str):
    if name == "hopper":
        pytest.importorskip("mujoco")
    return find.recipe(f"control/{name}")


def test_all_recipes_are_listed():
    assert [name for name in find.names() if name.startswith("control/")] == [f"control/{name}" for name in WANTED]


@pytest.mark.parametrize("name", WANTED)
def test_builds(name):
    config = found(name).config()
    (arm,) = found(name).build(config).values()
    algorithm = arm.method(arm.federation)
    assert arm.federation.count == config.clients
    assert arm.rounds == config.rounds
    assert algorithm.policy.hold == getattr(config, "hold", 1)
    assert config.steps // config.num_envs >= 500  # rows long enough for what is to be learnt


@pytest.mark.parametrize("name", WANTED)
def test_claims_follow_the_numbers(name):
    def verdict(*by_seed: float) -> str:
        returns = np.asarray([[level - 1.0, level + 1.0] for level in by_seed])  # clients differ, their mean counts
        arms = {ARM: Outcome([{"round": 0, "seconds": 1.0}], returns)}
        (claim,) = found(name).claims(found(name).config(), arms)
        return claim.verdict

    wanted = WANTED[name]
    assert verdict(wanted, wanted + 5.0) == "holds"
    assert verdict(wanted + 50.0, wanted - 0.1) == "does not hold"  # every seed must
    assert verdict(wanted + 5.0, float("nan")) == "does not hold"
