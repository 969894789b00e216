"""The recipes of Xie & Song 2025: they build, tiny runs are judged, and claims follow the numbers (about 60 s)."""

import json

import numpy as np
import pytest

from fedrl import training
from fedrl.engines import local_processes as workers
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments import experiment, find, orders, outcomes
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.experiments.settings import configure
from fedrl.recipes.xie2025 import _levels, fig2, fig6
from fedrl.recipes.xie2025._methods import BASELINES, FEDAVG, FEDPOHCS, FOUR, ONE_PHASE, POWER
from fedrl.records import folder

ARMS = {"fig2": 5, "fig3": 4, "fig5": 3, "fig6": 12, "fig7": 12}
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
TINY = {
    "clients": 6, "candidates": 4, "participants": 2, "rounds": 1, "eval_every": 1, "episodes": 1, "local_steps": 1,
    "steps": 64, "num_envs": 2, "warm_up": 64, "remember": 1, "critic_epochs": 1, "sweeps": 10,
}  # fmt: skip


def found(name: str):
    if name in ("fig3", "fig7"):
        pytest.importorskip("mujoco")
    return find.recipe(f"xie2025/{name}")


def test_all_recipes_are_listed():
    listed = sorted([*ARMS, "fig4"])  # fig4 has tests of its own
    assert [name for name in find.names() if name.startswith("xie2025/")] == [f"xie2025/{name}" for name in listed]


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("name", ARMS)
def test_builds(name, paper):
    recipe = found(name)
    config = configure(recipe, paper=paper, overrides={})
    arms = recipe.build(config)
    assert len(arms) == ARMS[name]
    for arm_name, arm in arms.items():
        algorithm = arm.method(arm.federation)
        assert arm.federation.count == 60
        (warm_up,) = algorithm.opening
        assert warm_up.local.local_steps == -(-config.warm_up // config.steps)
        looks_first = not arm_name.startswith((FEDAVG, ONE_PHASE))
        assert len(algorithm.exchanges) == (2 if looks_first else 1)
        assert algorithm.exchanges[-1].local.local_steps == config.local_steps


def test_fig2_tiny_run_is_judged(tmp_path):
    order = orders.order("xie2025/fig2", overrides=TINY, seeds=1)
    with folder.claim(tmp_path / "run", order.plain(), resume=False) as place:
        experiment.run(order, place, engine=one_at_a_time(), warn=pytest.fail)
    claims = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert [claim["verdict"] for claim in claims] == [UNDECIDED] * 8  # one seed tells nothing
    for name, outcome in outcomes.of_run(order, tmp_path / "run").items():
        start, end = outcome.rows
        assert start["env_steps"] == 6 * 64, name  # the warm-up of all
        assert end["env_steps"] == 6 * 64 + 2 * 64, name  # and an iteration of two
        assert np.sum(end["train/chosen"]) == 2, name
        assert np.isfinite(outcome.returns).all()
    assert {file.name for file in (tmp_path / "run" / "figures").iterdir()} == {"return.png", "return.svg"}


def test_fig3_tiny_run_on_a_worker():
    """The arm of FedPOHCS, which does all that the others do."""
    recipe = found("fig3")
    arm = recipe.build(recipe.config(**TINY))[FEDPOHCS]
    run = training.train(arm.method, arm.federation, rounds=1, engine=processes(1), evaluation=arm.evaluation)
    workers.stop()
    assert [row["env_steps"] for row in run.rows] == [6 * 64, 8 * 64]
    assert np.sum(run.rows[-1]["train/chosen"]) == 2
    assert (run.returns > 0).all()  # a hopper earns one for every step that it stands


def outcome(level: float, noise: float = 0.0, seeds: int = 4, chosen=(1.0,) * 6) -> Outcome:
    """A curve that rises to `level` within twenty of forty rounds; seeds differ by up to `noise`."""
    ends = level + noise * np.linspace(-1.0, 1.0, seeds)
    rows = [
        {"round": number, "return_by_seed": (share * ends).tolist(), "train/chosen": list(chosen)}
        for number, share in ((0, 0.0), (10, 0.5), (20, 1.0), (30, 1.0), (40, 1.0))
    ]
    return Outcome(rows, np.repeat(ends[:, None], 6, axis=1))


def verdicts(name: str, arms: dict[str, Outcome], **config) -> list[str]:
    recipe = found(name)
    return [claim.verdict for claim in recipe.claims(recipe.config(clients=6, participants=2, **config), arms)]


def arms_of(best: float, one_phase: float, others: float, noise: float = 0.0, seeds: int = 4) -> dict[str, Outcome]:
    found = {name: outcome(others, seeds=seeds) for name in BASELINES}
    return found | {FEDPOHCS: outcome(best, noise, seeds), ONE_PHASE: outcome(one_phase, seeds=seeds)}


def test_fig2_claims_follow_the_numbers():
    assert verdicts("fig2", arms_of(90.0, 85.0, 50.0)) == [HOLDS] * 8
    assert verdicts("fig2", arms_of(90.0, 75.0, 50.0)) == [HOLDS] * 7 + [FAILS]
    assert verdicts("fig2", arms_of(50.0, 70.0, 90.0)) == [FAILS] * 8
    assert verdicts("fig2", arms_of(90.0, 85.0, 50.0, noise=100.0)) == [UNDECIDED] * 8
    assert verdicts("fig2", arms_of(90.0, 85.0, 50.0, seeds=1)) == [UNDECIDED] * 8


def test_fig3_claims_follow_the_numbers():
    assert verdicts("fig3", arms_of(1500.0, 0.0, 900.0), rounds=40) == [HOLDS] * 7
    assert verdicts("fig3", arms_of(1400.0, 0.0, 1600.0), rounds=40) == [FAILS] * 7
    assert verdicts("fig3", arms_of(1400.0, 0.0, 1400.0), rounds=6) == [UNDECIDED] * 7
    # one seed of four comes too late: 1,450 is only reached by the others
    assert verdicts("fig3", arms_of(1500.0, 0.0, 900.0, noise=60.0), rounds=40)[0] == FAILS


def test_fig5_claims_follow_the_numbers():
    """Of six cars the last three are "the last third", car 40 of 60 being one of them."""

    def judged(pohcs: float, power: float, best: float, others: float) -> list[str]:
        shares = {FEDPOHCS: pohcs, FEDAVG: 0.5, POWER: power}
        levels = {FEDPOHCS: best, FEDAVG: others, POWER: others}
        chosen = {name: [(1.0 - share) / 3] * 3 + [share / 3] * 3 for name, share in shares.items()}
        return verdicts("fig5", {name: outcome(levels[name], chosen=chosen[name]) for name in shares}, rounds=40)

    assert judged(0.3, 0.7, 90.0, 50.0) == [HOLDS] * 3
    assert judged(0.7, 0.3, 50.0, 90.0) == [FAILS] * 3
    assert judged(0.45, 0.5, 50.0, 50.0) == [UNDECIDED] * 3  # 320 choices: a share is known to 0.028


LEVELS = _levels.ALL


def by_level(best: tuple[float, ...], others: tuple[float, ...], noise: float = 0.0) -> dict[str, Outcome]:
    """Arms at low, medium and high heterogeneity: FedPOHCS and the rest."""
    return {
        _levels.arm_name(level, name): outcome(a if name == FEDPOHCS else b, noise)
        for level, a, b in zip(LEVELS, best, others, strict=True)
        for name in FOUR
    }


AS_PRINTED = (90.0, 80.0, 70.0), (85.0, 65.0, 45.0)
UPSIDE_DOWN = (50.0, 60.0, 70.0), (45.0, 65.0, 90.0)
ALIKE = (50.0, 50.0, 50.0), (50.0, 50.0, 50.0)


def test_fig6_claims_follow_the_numbers():
    assert verdicts("fig6", by_level(*AS_PRINTED)) == [HOLDS] * 10
    assert verdicts("fig6", by_level(*UPSIDE_DOWN)) == [FAILS] * 7 + [HOLDS, FAILS, FAILS]
    assert verdicts("fig6", by_level(*ALIKE)) == [UNDECIDED] * 10
    assert verdicts("fig6", by_level(*AS_PRINTED, noise=50.0))[:4] == [UNDECIDED] * 4  # leads are taken within a seed


def fig7_arms(fedavg: tuple[float, ...], others: tuple[float, ...]) -> dict[str, Outcome]:
    levels = {name: fedavg if name == FEDAVG else others for name in FOUR}
    return {_levels.arm_name(at, name): outcome(levels[name][i]) for i, at in enumerate(LEVELS) for name in FOUR}


def test_fig7_claims_follow_the_numbers():
    assert verdicts("fig7", fig7_arms((90.0, 70.0, 50.0), (90.0, 85.0, 80.0))) == [HOLDS] * 4
    assert verdicts("fig7", fig7_arms((50.0, 70.0, 90.0), (90.0, 70.0, 50.0))) == [FAILS] * 4
    assert verdicts("fig7", fig7_arms(*ALIKE)) == [UNDECIDED] * 4


@pytest.mark.parametrize("name", ["fig6", "fig7"])
def test_levels_in_any_order_and_number(name):
    arms = by_level(*AS_PRINTED) if name == "fig6" else fig7_arms((90.0, 70.0, 50.0), (90.0, 85.0, 80.0))
    assert set(verdicts(name, arms, levels=("high", "low"))) == {HOLDS}
    alone = verdicts(name, arms, levels=("medium",))  # nothing to compare with, but for who ends above whom
    assert alone == ([UNDECIDED] * 7 + [HOLDS] if name == "fig6" else [UNDECIDED] * 4)


def test_bad_settings_are_refused():
    with pytest.raises(RecipeError, match="participants=7 must lie between 1 and candidates=6; try"):
        fig2.build(fig2.Config(candidates=6, participants=7))
    with pytest.raises(RecipeError, match="levels are low, medium and high, got 'huge'; try"):
        fig6.build(fig6.Config(levels=("low", "huge")))


def test_fedavg_has_its_own_rate_at_medium_heterogeneity_only():
    config = fig6.Config()
    assert [fig6._at(config, level, FEDAVG).fedavg_learning_rate for level in LEVELS] == [1e-3, 5e-3, 1e-3]
