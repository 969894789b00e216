"""The recipes of FedAgent: what they build, tiny runs from end to end, and what they decide (about 60 s of CPU)."""

import json

import numpy as np
import pytest
from support.decisions import decided

from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments import experiment, find, judge, orders, outcomes
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.experiments.settings import configure
from fedrl.llm.episodes import Acting
from fedrl.llm.grpo_update.update import Grpo
from fedrl.recipes.fedagent._pieces import pieces
from fedrl.recipes.fedagent._study import Study
from fedrl.records.folder import claim

TINY = {
    "products": 60, "games": 40, "demonstrations": 6, "width": 16, "clients": 6, "tasks_each": 5, "tasks": 2, "group": 2,
    "local_epochs": 1, "rounds": 2, "evaluate": 6, "eval_every": 1,
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
    recipe = find.recipe(f"fedagent/{name}")
    config = configure(recipe, paper=False, overrides=TINY | {"application": application})
    built = recipe.build(config)
    assert len(built) == arms
    epochs = {arm.rounds * (1 if arm.federation.count == 1 else config.local_epochs) for arm in built.values()}
    assert epochs == {config.rounds * config.local_epochs}  # of one learner, the same for all arms


def labels(folder, overrides=TINY) -> dict[str, str]:
    """A file in which every third task is won."""
    config = configure(find.recipe("fedagent/table1"), paper=False, overrides=overrides)
    made = Study(config)
    won = {str(task): bool(i % 3 == 0) for i, task in enumerate(made.application.pool.tolist())}
    application = {"name": type(made.settings).__name__, **vars(made.settings)}
    (folder / "labels.json").write_text(json.dumps({"application": application, "won": won}, default=vars))
    return {"labels": str(folder / "labels.json")}


@pytest.mark.parametrize("partition", ["uniform", "preference", "coverage", "hardness"])
def test_who_has_which_tasks(partition, tmp_path):
    recipe = find.recipe("fedagent/table1")
    hard = labels(tmp_path) if partition == "hardness" else {}
    config = configure(recipe, paper=False, overrides=TINY | {"partition": partition} | hard)
    federation = recipe.build(config)["FedAgent"].federation
    assert federation.count == 6
    assert (np.asarray(federation.env_params.number) > 0).all()


def test_a_run_from_end_to_end(tmp_path):
    order = orders.order("fedagent/quickstart", overrides=TINY, seeds=1)
    with claim(tmp_path / "run", order.plain(), resume=False) as folder:
        experiment.run(order, folder, engine=one_at_a_time(), warn=print)
    assert [claim.verdict for claim in experiment.claims(order, folder.path)] == [judge.UNDECIDED] * 2  # one seed
    last = outcomes.of_run(order, folder.path)["FedAgent"].rows[-1]
    assert {"return", "score"} <= set(last)
    assert any(name.startswith("success/") for name in last)
    assert last["env_steps"] > 0


def test_figure_2_tells_of_the_clients_own_models(tmp_path):
    order = orders.order("fedagent/fig2", overrides=TINY | {"local_epochs": 2, "rounds": 1, "evaluate": 4}, seeds=2)
    with claim(tmp_path / "run", order.plain(), resume=False) as folder:
        experiment.run(order, folder, engine=one_at_a_time(), warn=print)
    above, near, ahead = experiment.claims(order, folder.path)
    for claim_ in (above, ahead):
        assert claim_.verdict == decided(claim_.numbers["gap"], claim_.numbers["se"])
    gap, error = near.numbers["gap"], near.numbers["se"]
    assert (near.verdict == judge.HOLDS) == (abs(gap) + 3 * error <= 0.05)
    assert (near.verdict == judge.FAILS) == (abs(gap) - 3 * error > 0.05)
    first = next(row for row in outcomes.of_run(order, folder.path)["FedAgent, server"].rows if row["round"] == 1)
    found, who = (np.array(first[f"train/{name}_by_seed"]) for name in ("locals", "clients"))
    assert found.shape == (2, TINY["clients"] // 3, 2)  # seeds, clients in a round, success and score
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[..., 1] > 0).any()
    assert (np.diff(who) > 0).all()
    assert (folder.path / "figures" / "dynamics.png").exists()


@pytest.mark.parametrize("application", ["webshop", "household"])
def test_partitions_are_drawn_without_training(application, tmp_path):
    small = TINY | {"application": application, "clients": 12}
    order = orders.order("fedagent/partitions", overrides=small | labels(tmp_path, small))
    with claim(tmp_path / "run", order.plain(), resume=False) as folder:
        experiment.run(order, folder, warn=print)
    claims = experiment.claims(order, folder.path)
    assert len(claims) == 3
    for claim_ in claims:
        assert claim_.verdict == decided(claim_.numbers["much"] - claim_.numbers["little"], claim_.numbers["se"])
    assert {path.stem for path in (folder.path / "figures").glob("*.png")} == {"preference", "coverage", "hardness"}


def test_arms_of_figure_3_share_what_is_the_same():
    recipe = find.recipe("fedagent/fig3")
    config = configure(recipe, paper=False, overrides=TINY | {"rounds": 5, "local_epochs": 3, "samples": (1, 2)})
    arms = recipe.build(config)
    assert len(arms) == 2 + 3 + 3 - 2
    assert {name: arm.rounds for name, arm in arms.items() if "epochs" in name} == {
        "1 epochs a round": 15,
        "5 epochs a round": 3,
    }
    finals = dict(zip(arms, (0.5, 0.5, 0.4, 0.4, 0.3, 0.6), strict=True))
    good = {name: outcome(0.2, level) for name, level in finals.items()}
    house = configure(recipe, paper=False, overrides={**config.__dict__, "application": "household"})
    assert [claim.verdict for claim in recipe.claims(config, good)] == [judge.HOLDS] * 2
    assert [claim.verdict for claim in recipe.claims(house, good)] == [judge.HOLDS] * 4
    bad = {
        name: outcome(0.2, 1 - level if "epochs" in name else i / 10) for i, (name, level) in enumerate(finals.items())
    }
    assert [claim.verdict for claim in recipe.claims(config, bad)] == [judge.FAILS] * 2
    with pytest.raises(RecipeError, match="at least two values each to compare"):
        recipe.build(configure(recipe, paper=False, overrides=TINY | {"epochs": (1,)}))
    with pytest.raises(RecipeError, match="16 epochs in all .* cannot be rounds of 3"):
        recipe.build(configure(recipe, paper=False, overrides=TINY | {"rounds": 16}))


def test_what_figure_4_decides():
    from fedrl.recipes.fedagent import fig4

    recipe = find.recipe("fedagent/fig4")
    config = configure(recipe, paper=False, overrides=TINY)
    names = [name for pair in fig4.panels(config).values() for name in pair]
    assert len(names) == 6
    good = {name: outcome(0.2, 0.6 - 0.02 * (i % 2)) for i, name in enumerate(names)}
    assert [claim.verdict for claim in recipe.claims(config, good)] == [judge.HOLDS] * 6
    bad = {name: outcome(0.2, 0.6 - 0.5 * (i % 2)) for i, name in enumerate(names)}
    assert [claim.verdict for claim in recipe.claims(config, bad)] == [judge.FAILS] * 6


def test_what_table_1_decides():
    recipe = find.recipe("fedagent/table1")
    config = configure(recipe, paper=False, overrides={})
    names = ["FedAgent", "Centralised", "Local, client 21", "Local, client 42", "Local, client 84"]
    good = {name: outcome(0.2, 0.6 if name[0] in "FC" else 0.4) for name in names}
    assert [claim.verdict for claim in recipe.claims(config, good)] == [judge.HOLDS] * 3
    bad = {name: outcome(0.2, 0.1 if name[0] == "F" else 0.4) for name in names}
    assert [claim.verdict for claim in recipe.claims(config, bad)] == [judge.FAILS] * 3


def test_wrong_settings():
    recipe = find.recipe("fedagent/quickstart")
    for overrides, wanted in (
        ({"application": "chess"}, "application is webshop or household, got 'chess'"),
        ({"partition": "by mood"}, "partition is uniform, preference, coverage or hardness, got 'by mood'"),
        ({"mean": "of all"}, "mean is of factors or of products, got 'of all'"),
        (
            {"decode": "free"},
            "a model that imitates demonstrations learns commands, not the tags .* set decode=commands",
        ),
        ({"decode": "free", "model": "smollm2"}, "or warm=0 and a model other than pocket"),
    ):
        with pytest.raises(RecipeError, match=wanted):
            recipe.build(configure(recipe, paper=False, overrides=TINY | overrides))
    for overrides, wanted in (({"decode": "aloud"}, "decode is"), ({"pages": "glossy"}, "pages are one of text, rich")):
        with pytest.raises(ValueError, match=wanted):
            recipe.build(configure(recipe, paper=False, overrides=TINY | overrides))


@pytest.mark.parametrize("application", ["webshop", "household"])
def test_the_papers_own_settings(application):
    """Built without reading any model: of which kind it is, how it is spoken to and what is learnt."""
    recipe = find.recipe("fedagent/table1")
    made = pieces(configure(recipe, paper=True, overrides={"application": application, "model": "qwen2.5-7b"}))
    assert made.spec.name == "Qwen/Qwen2.5-7B-Instruct"
    assert made.spec.lora is None
    assert made.spec.checkpointing
    assert made.spec.tokens == made.grpo.at_once
    assert made.spec.warm is None
    assert made.spec.shows_commands
    assert made.acting == Acting("free", most_tokens=512, window=2)
    assert made.evaluating == Acting("free", temperature=0.4, most_tokens=512, window=2)
    assert made.grpo == Grpo(minibatch=64)
    assert made.settings.step_limit == {"webshop": 15, "household": 50}[application]


def test_a_window_on_the_last_steps(tmp_path):
    """`pocket` imitates, acts and learns with prompts of their own, if asked to."""
    order = orders.order("fedagent/quickstart", overrides=TINY | {"window": 1, "rounds": 1}, seeds=1)
    made = Study(order.config)
    assert made.spec.window == made.acting.window == made.evaluating.window == 1
    with claim(tmp_path / "run", order.plain(), resume=False) as folder:
        experiment.run(order, folder, engine=one_at_a_time(), warn=print)
    assert outcomes.of_run(order, folder.path)["FedAgent"].rows[-1]["train/update_norm"] > 0
