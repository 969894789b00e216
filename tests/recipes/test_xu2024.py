"""The recipes of Xu et al. 2024: what they build and decide, and that methods do what Table IV counts (about 60 s)."""

import numpy as np
import pytest
from support.federations import federation

import fedrl
from fedrl.algorithms.fmarl import fmarl
from fedrl.evaluation import exact_return
from fedrl.experiments import find, judge
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.experiments.settings import configure
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024 import _variants as variants
from fedrl.theory.utility import TABLE_IV, TABLE_IV_K, TABLE_IV_M, overheads

RECIPES = {"fig4": 4, "fig5": 8, "fig6a": 6, "fig6b": 4, "fig6c": 6, "fig6d": 2, "fig6e": 2, "fig6f": 2, "fig7": 5}
TINY = {"epochs": 10, "length": 100, "minibatch": 50, "hidden": 4}


def outcome(levels: list[float], seeds: int = 4) -> Outcome:
    """Seeds that end a little apart, at the levels of successive tests."""
    apart = 0.001 * np.arange(seeds)
    counts = {"train/updates": 7, "train/messages": 26}
    rows = [{"round": i, "return_by_seed": (level + apart).tolist()} | counts for i, level in enumerate(levels)]
    return Outcome(rows, (levels[-1] + apart)[:, None] * np.ones((1, 7)))


@pytest.mark.parametrize("name", RECIPES)
def test_arms_and_claims(name):
    recipe = find.recipe(f"xu2024/{name}")
    config = configure(recipe, paper=False, overrides=TINY)
    arms = recipe.build(config)
    assert len(arms) == RECIPES[name]
    found = {arm: outcome([0.1, 0.2 + 0.01 * i, 0.3 + 0.02 * i]) for i, arm in enumerate(arms)}
    verdicts = {claim.verdict for claim in recipe.claims(config, found)}
    assert verdicts <= {judge.HOLDS, judge.FAILS}  # the seeds agree, so all is decided
    assert recipe.claims(config, dict.fromkeys(arms, outcome([0.1, 0.2])))[0].verdict == judge.UNDECIDED


def test_all_arms_see_as_many_epochs():
    config = eight.Config(epochs=500)
    rounds = {variants.name(row): eight.arm(config, eight.variant(config, row), row.tau).rounds for row in TABLE_IV}
    assert {n * row.tau for n, row in zip(rounds.values(), TABLE_IV, strict=True)} == {TABLE_IV_K}
    assert len(rounds) == len(TABLE_IV)


@pytest.mark.parametrize("row", TABLE_IV, ids=variants.name)
def test_what_is_done_is_what_table_iv_counts(row):
    """Uplinks, updates and messages of one period really played, on a small MDP, times the periods of the paper."""
    learner = gradient_learner(reinforce(horizon=2), eta=0.1, local_steps=1)
    method = fmarl(learner, tau=row.tau, pace=eight.pace(row), graph=eight.GRAPHS[row.links], interactions=row.E)
    log = fedrl.train(method, federation(TABLE_IV_M), rounds=1, evaluation=exact_return()).rows[-1]
    periods = TABLE_IV_K // row.tau
    wanted = overheads(TABLE_IV_M, TABLE_IV_K, row.tau, row.tau_i, row.links, row.E)
    assert TABLE_IV_M * periods == wanted.C1
    assert log["train/updates"] * periods == wanted.C2
    assert log["train/messages"] * periods == wanted.W1 == wanted.W2


def test_odd_settings_are_named():
    with pytest.raises(RecipeError, match="length=100 must be a multiple of minibatch=30"):
        find.recipe("xu2024/fig4").build(eight.Config(length=100, minibatch=30))
    with pytest.raises(RecipeError, match="simulator is arrays or sumo, got 'sumo2'"):
        find.recipe("xu2024/fig4").build(eight.Config(simulator="sumo2"))
    with pytest.raises(RecipeError, match="optimizer is adam or sgd, got 'lbfgs'"):
        find.recipe("xu2024/fig4").build(eight.Config(optimizer="lbfgs"))


def test_settings_of_the_environment_arrive():
    config = eight.Config(acceleration=3.0, relative=True, gamma=0.99)
    federation, plain = eight.federation(config), eight.federation(eight.Config())
    assert federation.environment.gamma == 0.99
    assert np.asarray(federation.env_params.acceleration).tolist() == [3.0] * eight.AGENTS
    assert (plain.environment.gamma, float(plain.env_params.acceleration[0])) == (0.9, 1.0)
    assert federation.environment.observations.low != plain.environment.observations.low  # gaps may be negative


def test_settings_of_the_learner_arrive(monkeypatch):
    monkeypatch.setattr(eight, "ppo", lambda **settings: settings)
    monkeypatch.setattr(eight, "gaussian_mlp", lambda *hidden, **first: (hidden, first))
    found = eight.learner(eight.Config(gae_lambda=0.5, optimizer="sgd", last=0.01, log_std=-1.0, hold=20))
    assert (found["gae_lambda"], found["value_last"]) == (0.5, 0.01)
    assert found["policy"] == ((64, 64), {"last": 0.01, "log_std": -1.0, "hold": 20})
    for optimizer in (found["optimizer"], found["critic_optimizer"]):
        gradient = {"w": np.array([3.0, 4.0])}  # a norm of 5: plain SGD does not clip
        update, _ = optimizer.update(gradient, optimizer.init(gradient))
        np.testing.assert_array_equal(update["w"], gradient["w"])
    usual = eight.learner(eight.Config())
    assert (usual["gae_lambda"], usual["value_last"]) == (0.95, 1.0)
    assert usual["policy"] == ((64, 64), {"last": 1.0, "log_std": 0.0, "hold": 1})
