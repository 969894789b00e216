"""Figure 4 of Xie & Song 2025 on synthetic road networks: it builds, runs, and claims follow the numbers (about 20 s)."""

import numpy as np
import pytest

from fedrl import training
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.experiments.settings import configure
from fedrl.recipes.xie2025 import _roads as roads
from fedrl.recipes.xie2025 import fig4
from fedrl.recipes.xie2025._methods import FEDAVG, FEDPOHCS, FOUR
from fedrl.rollouts import host

pytest.importorskip("libsumo")

TINY = {
    "clients": 3, "candidates": 2, "participants": 1, "rounds": 1, "eval_every": 1, "episodes": 1, "local_steps": 1,
    "steps": 64, "warm_up": 64, "epochs": 1, "critic_epochs": 1, "sweeps": 10, "horizon": 32,
}  # fmt: skip
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


@pytest.mark.parametrize("paper", [False, True])
def test_builds(paper):
    config = configure(fig4.RECIPE, paper=paper, overrides={})
    arms = fig4.build(config)
    assert tuple(arms) == FOUR
    for name, arm in arms.items():
        algorithm = arm.method(arm.federation)
        assert (arm.federation.count, arm.federation.weight) == (10, None)
        assert len(algorithm.exchanges) == (1 if name == FEDAVG else 2)
        assert algorithm.exchanges[-1].local.local_steps == (10 if paper else 2)


def test_settings_of_tables_3_and_4():
    config = configure(fig4.RECIPE, paper=True, overrides={})
    assert (config.clients, config.candidates, config.participants, config.local_steps) == (10, 9, 2, 10)
    assert (config.learning_rate, config.fedavg_learning_rate, config.decay, config.kl_target) == (
        1e-4,
        1e-4,
        0.98,
        1e-4,
    )
    assert (config.steps, config.epochs, config.episodes) == (2048, 10, 20)


def test_tiny_run():
    """The arm of FedPOHCS, which does all that the others do."""
    arm = fig4.build(fig4.Config(**TINY))[FEDPOHCS]
    run = training.train(arm.method, arm.federation, rounds=1, engine=one_at_a_time(), evaluation=arm.evaluation)
    host.close_all()
    assert [row["env_steps"] for row in run.rows] == [3 * 64, 4 * 64]
    assert np.sum(run.rows[-1]["train/chosen"]) == 1
    assert (run.returns > 0.0).all()
    assert (run.returns < 32.0).all()


def outcome(curve: tuple[float, ...], noise: float = 0.0) -> Outcome:
    """Four seeds that differ by up to `noise`."""
    off = noise * np.linspace(-1.0, 1.0, 4)
    rows = [{"round": number, "return_by_seed": (level + off).tolist()} for number, level in enumerate(curve)]
    return Outcome(rows, np.zeros((4, 10)))


def verdicts(best: tuple[float, ...], others: tuple[float, ...], noise: float = 0.0) -> list[str]:
    arms = {name: outcome(best, noise) if name == FEDPOHCS else outcome(others) for name in FOUR}
    return [claim.verdict for claim in fig4.claims(fig4.Config(), arms)]


def test_claims_follow_the_numbers():
    assert verdicts((100.0, 200.0, 250.0), (100.0, 200.0, 220.0)) == [HOLDS] * 6
    assert verdicts((100.0, 300.0, 200.0), (100.0, 200.0, 220.0)) == [HOLDS] * 3 + [FAILS] * 3
    assert verdicts((100.0, 200.0, 210.0), (100.0, 230.0, 200.0)) == [FAILS] * 3 + [HOLDS] * 3
    assert verdicts((100.0, 200.0, 250.0), (100.0, 200.0, 220.0), noise=90.0) == [UNDECIDED] * 6


def test_no_more_networks_than_there_are():
    with pytest.raises(RecipeError, match="there are 10 networks, got clients=11; try --set clients=10"):
        fig4.build(fig4.Config(clients=11))


def test_curves_are_drawn_beside_two_cars_that_do_not_learn(tmp_path):
    config = fig4.Config(clients=2, horizon=40)
    levels = roads.references(config)
    assert list(levels) == ["always accelerate", "SUMO drives all"]
    assert all(0 < level < 40 for level in levels.values())
    arms = {FEDPOHCS: Outcome([{"round": i, "return": float(i)} for i in range(3)], np.ones((1, 2)))}
    assert [path.name for path in fig4.draw(config, arms, tmp_path)] == ["return.png"]
