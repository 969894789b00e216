"""Recipes between organisations: everybody has the recipe, and what the sites play has the bytes of `one_at_a_time`."""

import json
from pathlib import Path

import pytest
import tomli_w

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from safetensors.numpy import load_file
from support.organisations import CLIFF, Folders, LocalGrid

import fedrl
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.errors import FedRLError
from fedrl.evaluation import sampled_return
from fedrl.organisations import agreement as agreements
from fedrl.organisations import parts, recipes, server_app, trips
from fedrl.organisations.status_file import StatusFile
from fedrl.records import log

AGREED = {"name": "all", "rounds": 2, "seed": 5, "episodes": 2, "sites": {"a": 1, "b": 2}}
AGREED |= {"rules": {"quorum": 3, "deadline": 60.0, "patience": 0.0}}
QUICK = {
    "name": "quickstart",
    "arm": "PAvg (averaged policies)",
    "settings": {"clients": 3, "local_steps": 2, "horizon": 4},
}
OWN = '''
"""A recipe of one's own, installed everywhere."""

from dataclasses import dataclass

from fedrl.algorithms.fedavg import pavg
from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite, random_mdp
from fedrl.experiments.recipe import Arm, Recipe
from fedrl.federations.federation import Federation


@dataclass(frozen=True)
class Config:
    clients: int = 4
    eta: float = 0.1


def build(config):
    federation = Federation(finite.environment(16, 4, 0.9), random_mdp.dense(16, 4, kappa=0.5), clients=config.clients)
    return {"PAvg": Arm(pavg(eta=config.eta, local_steps=2, horizon=4), federation, 9, fused("map"))}


OURS = Recipe(paper="ours", shows="it", minutes=0.1, seeds=1, config=Config, build=build, claims=lambda config, arms: [])
'''


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(trips, "LOOK", 0.0)


@pytest.fixture
def installed(tmp_path, monkeypatch) -> str:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "ward_recipes.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    return "ward_recipes:OURS"


def play(home: Path, agreed: dict, sites: dict) -> Folders:
    made = Folders(home, agreed, sites, 5)
    grid = LocalGrid(made, {name: made.worker(name) for name in made.homes})
    server_app.play(made.server, made.agreement, grid, 7, StatusFile(made.server.status))
    return made


def same(made: Folders, out: Path, federation=None, evaluation=None) -> list[dict]:
    """The rows of the run, once they and the policy are those of the arm in one process."""
    arm = recipes.arm_of(made.agreement)
    fedrl.train(
        arm.method, federation or arm.federation, rounds=made.agreement.rounds, seed=5, out=out, engine=one_at_a_time(),
        evaluation=evaluation or arm.evaluation, faults=server_app.rule(made.agreement), callback=lambda row, rounds: None,
    )  # fmt: skip
    there, here = (load_file(path / "policy.safetensors") for path in (made.server.run, out))
    assert {name: x.tobytes() for name, x in there.items()} == {name: x.tobytes() for name, x in here.items()}
    rows, simulated = ([{**row, "seconds": 0} for row in log.read(x / "log.jsonl")] for x in (made.server.run, out))
    assert json.dumps(rows) == json.dumps(simulated)
    return rows


def test_a_tabular_recipe_of_ones_own(tmp_path, installed):
    """Sites with one client and with two; their worlds are the recipe's, so there are no spaces."""
    recipe = {"name": installed, "settings": {"clients": 3, "eta": 0.2}}
    rows = same(play(tmp_path, AGREED | {"recipe": recipe}, {"a": {}, "b": {}}), tmp_path / "here")
    assert rows[-1]["round"] == 2  # of the agreement, not of the arm
    assert rows[-1]["env_steps"] == 2 * 3 * 2 * 4


def test_a_recipe_of_fedrls():
    built = parts.of(agreements.parse(tomli_w.dumps(AGREED | {"recipe": QUICK})))
    algorithm = built.method(built.federation)
    parts.check(algorithm)
    assert built.federation.count == 3
    assert built.evaluation(algorithm, built.federation).name == "measure"


def test_a_recipe_in_the_sites_own_environments(tmp_path, installed):
    agreed = AGREED | {"recipe": {"name": installed}, "spaces": CLIFF, "max_episode_steps": 12}
    made = play(tmp_path, agreed, dict.fromkeys("ab", "CliffWalking-v1"))
    cliffs = fedrl.gymnasium("CliffWalking-v1", clients=3, max_episode_steps=12)
    same(made, tmp_path / "here", cliffs, sampled_return(2))


def test_language_agents_of_a_recipe(tmp_path):
    """FedAgent's quickstart, on a tiny model in a folder that everybody has (about 15 s)."""
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'fedrl[llm]'")
    pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedrl[llm]'")
    from support.tiny_agents import saved_shopper

    shop = {"products": 8, "demonstrations": 4, "evaluate": 2}
    saved_shopper(tmp_path / "model", **shop)
    few = {"clients": 3, "tasks_each": 3, "per_round": 3, "local_epochs": 1, "tasks": 2, "group": 3}
    settings = shop | few | {"model": str(tmp_path / "model"), "warm": 0, "layers": 1, "rank": 2, "learning_rate": 1e-2}
    recipe = {"name": "fedagent/quickstart", "arm": "FedAgent", "settings": settings}
    made = play(tmp_path, AGREED | {"recipe": recipe, "rounds": 1}, {"a": {}, "b": {}})
    same(made, tmp_path / "here")
    theta = load_file(made.server.run / "policy.safetensors")
    assert all("lora" in name for name in theta)
    assert any(x.any() for name, x in theta.items() if "lora_B" in name)


WRONG = {
    "name": ({"name": "quickstrat"}, {}, r"there is no recipe 'quickstrat'; did you mean quickstart"),
    "module": ({"name": "nowhere:RECIPE"}, {}, r"there is no module 'nowhere', where nowhere:RECIPE should be"),
    "file": ({"name": "recipe.py"}, {}, r"recipe.py is a file, which may differ .*; install it as a module everywhere"),
    "arm": (QUICK | {"arm": "QAv"}, {}, r"quickstart has no arm 'QAv'; it has 'alone', 'QAvg"),
    "setting": (QUICK | {"settings": {"client": 3}}, {}, r"quickstart has no setting 'client'; did you mean clients\?"),
    "key": (QUICK | {"setting": {}}, {}, r"\[recipe\].*'setting'; did you mean settings\?"),
    "clients": (QUICK | {"settings": {"clients": 4}}, {}, r"sites have 3 clients, and the recipe has 4; change \[sites\]"),
    "method": (QUICK, {"method": {"name": "fedavg"}}, r"has both \[recipe\] and \[method\]"),
    "privacy": (QUICK, {"privacy": {"clip": 1.0}}, r"has both \[recipe\] and \[privacy\], which a recipe brings itself"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_recipes_are_sentences(case):
    recipe, more, sentence = WRONG[case]
    agreement = agreements.parse(tomli_w.dumps(AGREED | more | {"recipe": recipe}))
    with pytest.raises(FedRLError, match=sentence):
        parts.of(agreement)


def test_a_refused_recipe(tmp_path):
    """A recipe names no method, so the name of the function that built it counts."""
    made = Folders(tmp_path, AGREED | {"recipe": QUICK}, {"a": {"refuse": {"algorithms": ["pavg"]}}, "b": {}})
    with pytest.raises(FedRLError, match=r"refuses the algorithm pavg"):
        made.worker("a")
    assert made.worker("b")
