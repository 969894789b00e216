"""The recipes of FedAgent: what they build, a tiny run from end to end, and what they decide (about 30 s of CPU)."""

import numpy as np
import pytest

from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.recipes import judging, recipe, running
from fedrl.recipes.recipe import Outcome, RecipeError
from fedrl.records.folder import claim

TINY = {
    "products": 60, "games": 40, "demonstrations": 6, "width": 16, "clients": 6, "tasks_each": 5, "tasks": 2, "group": 2,
    "local_epochs": 1, "rounds": 2, "evaluate": 6, "every": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def outcome(start: float, end: float, seeds: int = 3) -> Outcome:
    apart = 0.001 * np.arange(seeds)
    rows = [{"round": i, "return_by_seed": (level + apart).tolist()} for i, level in enumerate((start, end))]
    return Outcome(rows, (end + apart)[:, None])


@pytest.mark.parametrize(("name", "arms"), [("quickstart", 2), ("table1", 5)])
@pytest.mark.parametrize("application", ["webshop", "household"])
def test_arms(name, arms, application):
    module = recipe.load(f"fedagent/{name}")
    config = recipe.configure(module, paper=False, overrides=TINY | {"application": application})
    built = module.build(config)
    assert len(built) == arms
    epochs = {arm.rounds * (1 if arm.federation.count == 1 else config.local_epochs) for arm in built.values()}
    assert epochs == {config.rounds * config.local_epochs}  # of one learner, the same for all arms


@pytest.mark.parametrize("partition", ["uniform", "preference", "coverage"])
def test_who_has_which_tasks(partition):
    module = recipe.load("fedagent/table1")
    config = recipe.configure(module, paper=False, overrides=TINY | {"partition": partition})
    federation = module.build(config)["FedAgent"].federation
    assert federation.count == 6
    assert (np.asarray(federation.worlds.number) > 0).all()


def test_a_run_from_end_to_end(tmp_path):
    order = running.order("fedagent/quickstart", overrides=TINY, seeds=1)
    with claim(tmp_path / "run", order.plain(), resume=False) as folder:
        running.run(order, folder, engine=one_at_a_time(), warn=print)
    assert len(running.claims(order, folder.path)) == 2
    last = running.outcomes(order, folder.path)["FedAgent"].rows[-1]
    assert {"return", "score"} <= set(last)
    assert any(name.startswith("success/") for name in last)
    assert last["env_steps"] > 0


def test_what_table_1_decides():
    module = recipe.load("fedagent/table1")
    config = recipe.configure(module, paper=False, overrides={})
    names = ["FedAgent", "Centralised", "Local, client 21", "Local, client 42", "Local, client 84"]
    good = {name: outcome(0.2, 0.6 if name[0] in "FC" else 0.4) for name in names}
    assert [claim.verdict for claim in module.claims(config, good)] == [judging.HOLDS] * 3
    bad = {name: outcome(0.2, 0.1 if name[0] == "F" else 0.4) for name in names}
    assert [claim.verdict for claim in module.claims(config, bad)] == [judging.FAILS] * 3


def test_wrong_settings():
    module = recipe.load("fedagent/quickstart")
    for overrides, wanted in (
        ({"application": "chess"}, "application is webshop or household, got 'chess'"),
        ({"partition": "by mood"}, "partition is uniform, preference or coverage, got 'by mood'"),
    ):
        with pytest.raises(RecipeError, match=wanted):
            module.build(recipe.configure(module, paper=False, overrides=TINY | overrides))
