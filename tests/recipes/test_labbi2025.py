"""The recipes of Labbi et al. 2025: they build at both sizes, and a tiny run of two of them is judged."""

import json

import jax
import numpy as np
import pytest
from support.decisions import decided

from fedrl.experiments import experiment, find, orders
from fedrl.experiments.recipe import Claim, Outcome, RecipeError
from fedrl.experiments.settings import configure
from fedrl.recipes.labbi2025 import _floor_claims, _floors, _speed_up
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
    assert found == [f"labbi2025/{name}" for name in sorted((*SPEED_UP, *GATE, "speed-up", "theorem31"))]


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


def test_floors_build_at_both_sizes():
    """Every arm has worlds of its own size; those without noise play longer and are measured as often."""
    recipe = find.recipe("labbi2025/speed-up")
    for paper in (False, True):
        config = configure(recipe, paper=paper, overrides={})
        arms = recipe.build(config)
        most = config.clients[-1]
        for name, arm in arms.items():
            assert arm.federation.count in (1, most, *config.clients)
            assert arm.rounds == (config.exact_rounds if "exact" in name else config.rounds)
            assert arm.rounds // arm.eval_every == config.rounds // config.eval_every
        assert len(arms) == len(config.clients) + len(config.clients[1:-1]) + 3 + 3 * len(config.epsilons)


@pytest.mark.parametrize("wrong", [{"clients": (1,)}, {"clients": (2, 4)}, {"clients": (1, 1)}, {"epsilons": (0.1,)}])
def test_floors_need_two_points_for_an_exponent(wrong):
    recipe = find.recipe("labbi2025/speed-up")
    with pytest.raises(RecipeError, match="clients must rise from 1 on.*and epsilons from above 0"):
        recipe.build(recipe.config(**wrong))


def test_speed_up_tiny_run_is_judged(tmp_path):
    sizes = {
        "clients": (1, 2, 4),
        "epsilons": (0.2, 0.4),
        "rounds": 4,
        "exact_rounds": 8,
        "eval_every": 1,
        "horizon": 5,
    }
    claims, figures = run("labbi2025/speed-up", tmp_path / "run", **sizes)
    assert len(claims) == 8
    assert all(isinstance(number, float) for claim in claims for number in claim.numbers.values())
    assert len(figures) == 1


def floors_of(*, in_m=-1.0, in_epsilon=2.0, drift=0.0, extra=0.0, pooled=1.0):
    """Floors [seeds] as the claims would like them, or not."""
    config = _floors.Settings(clients=(1, 4, 16), epsilons=(0.1, 0.2))
    worlds = np.array([1.0, 1.1, 0.9])
    noise = {M: worlds * float(M) ** in_m for M in config.clients}
    found = {_floors.federation(M): noise[M] for M in config.clients}
    found |= {_floors.proportional(4): worlds, _floors.POOLED: pooled * noise[16], _floors.ONE_STEP: noise[16]}
    found[_floors.NOISELESS] = np.array([1e-5, -1e-5, 0.0])
    for epsilon in config.epsilons:
        price = worlds * epsilon**in_epsilon
        found[_floors.exact_one_step(epsilon)] = price
        found[_floors.exact(epsilon)] = (1 + drift) * price
        found[_floors.sampled(epsilon)] = noise[16] + (1 + drift) * price + extra
    return config, found


def floor_verdicts(monkeypatch, **changes):
    config, found = floors_of(**changes)
    monkeypatch.setattr(_floor_claims, "floors", lambda arms: arms)
    return [claim.verdict for claim in _floor_claims.claims(config, found)]


def test_floor_claims_hold_where_they_should(monkeypatch):
    assert floor_verdicts(monkeypatch) == ["holds"] * 8


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"in_m": -0.7}, 0),
        ({"pooled": 0.5}, 2),
        ({"in_epsilon": 1.0}, 5),
        ({"drift": 0.2}, 6),
        ({"extra": 0.3}, 7),
    ],
)
def test_floor_claims_fail_where_they_should(monkeypatch, changes, fails):
    verdicts = floor_verdicts(monkeypatch, **changes)
    assert verdicts[fails] == "does not hold"


def test_a_floor_is_the_mean_of_the_second_half():
    rows = [{"round": at, "gap_by_seed": [gap, 2 * gap]} for at, gap in ((0, 9.0), (2, 5.0), (3, 1.0), (4, 3.0))]
    np.testing.assert_allclose(_floor_claims._floor(Outcome(rows, np.zeros((2, 1)))), [2.0, 4.0])
    np.testing.assert_allclose(_floor_claims.slope((1.0, 10.0), [np.ones(2), np.array([0.1, 100.0])]), [-1.0, 2.0])
