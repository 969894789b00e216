"""The recipes of Labbi et al. 2025: they build at both sizes, and a tiny run of two of them is judged."""

import json

import jax
import numpy as np
import pytest
from support.decisions import decided

from fedrl.experiments import experiment, find, orders
from fedrl.experiments.recipe import Claim, RecipeError
from fedrl.experiments.settings import configure
from fedrl.recipes.labbi2025 import _speed_up
from fedrl.records import folder

SPEED_UP = ("fig1a", "fig7a", "fig7b", "fig7c")
GATE = ("fig1b", "fig1c")


def run(name: str, path, **overrides):
    seeds = overrides.pop("seeds", 2)
    order = orders.order(name, overrides=overrides, seeds=seeds)
    with folder.claim(path, order.plain(), False) as place:
        experiment.run(order, place, warn=pytest.fail)
    claims = [Claim(**claim) for claim in json.loads((path / "verdict.json").read_text())]
    return claims, list((path / "figures").glob("*.png"))


def test_all_recipes_are_listed():
    found = [name for name in find.names() if name.startswith("labbi2025/")]
    assert found == [f"labbi2025/{name}" for name in sorted((*SPEED_UP, *GATE, "theorem31"))]


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("name", [*SPEED_UP, *GATE, "theorem31"])
def test_builds(name, paper):
    recipe = find.recipe(f"labbi2025/{name}")
    config = configure(recipe, paper=paper, overrides={})
    for arm in recipe.build(config).values():
        algorithm = arm.method(arm.federation)
        theta = jax.eval_shape(algorithm.init, jax.random.key(0)).theta
        states, actions = arm.federation.env_params.reward.shape[1:]
        assert theta.shape in ((states, actions), (states, actions - 1, 2))
        assert arm.rounds == config.rounds


def test_published_conventions_change_worlds_and_discount():
    recipe = find.recipe("labbi2025/fig7c")
    config = recipe.config(clients=(4,), conventions="published")
    federation = recipe.build(config)["S-FedPG M=4"].federation
    kernel = np.asarray(federation.env_params.kernel)
    assert federation.environment.gamma == 0.99
    assert np.array_equal(kernel[0], kernel[2])
    assert not np.array_equal(kernel[0], kernel[1])


def test_unknown_conventions_are_refused():
    recipe = find.recipe("labbi2025/fig1b")
    with pytest.raises(RecipeError, match="conventions must be"):
        recipe.build(recipe.config(conventions="code"))
    with pytest.raises(RecipeError, match="instance must be"):
        recipe.build(recipe.config(instance="code"))


def test_fig1b_tiny_run_is_judged(tmp_path):
    claims, figures = run("labbi2025/fig1b", tmp_path / "run", rounds=4, eval_every=2, batch=2, instance="published")
    assert len(claims) == 8
    assert [claim.verdict for claim in claims[:2]] == ["holds", "holds"]  # the two exact ones
    for claim in claims[2:]:
        assert claim.verdict == decided(claim.numbers["difference"], claim.numbers["difference se"])
    assert all(isinstance(number, float) for claim in claims for number in claim.numbers.values())
    assert len(figures) == 1


def test_theorem31_holds(tmp_path):
    claims, figures = run("labbi2025/theorem31", tmp_path / "run")
    assert [claim.verdict for claim in claims] == ["holds"] * 5
    assert len(figures) == 1


def test_speed_up_of_a_curve_that_is_five_times_as_fast():
    rounds = np.arange(0, 101, 2)
    noise = np.array([0.99, 1.0, 1.01])
    slow, fast = (1 - np.exp(-speed * rounds[:, None] * noise / 50) for speed in (1.0, 5.0))
    claim = _speed_up._speed_up("S-FedPG", rounds, {2: slow, 10: fast})
    assert claim.verdict == "holds"
    assert claim.numbers["speed-up M=10"] == pytest.approx(5.0, rel=0.02)
    assert _speed_up._speed_up("S-FedPG", rounds, {2: slow, 10: slow}).verdict == "does not hold"
