"""An arm whose parameters run away is said to have diverged, on every engine, and the recipe goes on to its verdict."""

import json
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

import fedrl
from fedrl.algorithms.fedavg import pavg
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import TrainingDiverged
from fedrl.evaluation import sampled_return
from fedrl.experiments import experiment, find, orders, outcomes
from fedrl.experiments.recipe import Arm, Claim, Recipe
from fedrl.federations.federation import Federation
from fedrl.policies.mlp import mlp
from fedrl.recipes.xie2025 import _claims as says
from fedrl.records import folder, log

ROUNDS = 3


pytestmark = pytest.mark.usefixtures("travelling")


@dataclass(frozen=True)
class Config:
    pass


def carts() -> Federation:
    return fedrl.gymnasium(lambda client_id: gymnasium.make("CartPole-v1", max_episode_steps=20), clients=2)


def method(eta: float):
    return pavg(eta=eta, local_steps=1, horizon=5, policy=mlp(4))


def build(config: Config) -> dict[str, Arm]:
    return {
        name: Arm(method(eta), carts(), ROUNDS, one_at_a_time(), sampled_return(1))
        for name, eta in (("wild", 1e38), ("tame", 1e-3))
    }


def claims(config: Config, arms: dict) -> list[Claim]:
    return [says.ends_above(arms, "tame", "wild"), says.learns_faster(arms, "tame", "wild")]


@pytest.mark.parametrize("engine", [one_at_a_time, lambda: processes(1)], ids=["one at a time", "processes"])
def test_it_is_named(engine):
    where = "round 1, exchange 'train', seed 0: client \\d: its upload is not finite; take smaller steps"
    with pytest.raises(TrainingDiverged, match=where):
        fedrl.train(method(1e38), carts(), rounds=ROUNDS, engine=engine(), evaluation=sampled_return(1), warn=print)


def test_the_recipe_goes_on(tmp_path, monkeypatch):
    recipe = Recipe(
        paper="none", shows="what becomes of it", minutes=0.1, seeds=2, config=Config, build=build, claims=claims
    )
    monkeypatch.setattr(find, "recipe", lambda name: recipe)
    warned: list[str] = []
    order = orders.order("wild", seeds=2)
    with folder.claim(tmp_path / "run", order.plain(), resume=False) as place:
        experiment.run(order, place, warn=warned.append)
    assert warned[0].startswith("wild diverged (round 1, exchange 'train', seed 0: client ")
    rows = log.read(tmp_path / "run" / "arms" / "wild" / "log.jsonl")
    assert rows[-1]["diverged"]
    assert rows[-1]["round"] == ROUNDS
    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert [claim["verdict"] for claim in verdict] == ["undecided", "undecided"]
    found = outcomes.of_run(order, tmp_path / "run")
    assert np.isnan(found["wild"].final()).all()
    assert np.isfinite(found["tame"].final()).all()
    assert (tmp_path / "run" / "figures" / "return.png").exists()
