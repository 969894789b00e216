"""A learnt controller against drivers that learn nothing: its training, and claims that follow the speeds (about 60 s)."""

from dataclasses import replace

import numpy as np
import pytest

from fedrl.experiments import find
from fedrl.experiments.judge import FAILS, HOLDS, UNDECIDED
from fedrl.experiments.recipe import Outcome
from fedrl.recipes.xu2024 import _drivers as drivers
from fedrl.recipes.xu2024 import controllers
from fedrl.training import train

CONFIG = controllers.Config(epochs=2, length=60, minibatch=30, hidden=4, repetitions=1, test_every=1)
APART = np.array([-0.05, 0.0, 0.05])  # m/s between seeds


@pytest.fixture
def known(monkeypatch):
    """Drivers of 5.6, 5.7 and 7.0 m/s."""
    levels = {drivers.HUMANS: 5.6, drivers.ACCELERATE: 5.7, drivers.PLATOON: 7.0}
    monkeypatch.setattr(drivers, "speeds", lambda *given: {name: np.full(8, level) for name, level in levels.items()})


def judged(speed: float, apart: np.ndarray = APART) -> list[str]:
    arms = {controllers.FIRL: Outcome([], np.repeat((speed + apart)[:, None] / 20.0, 7, axis=1))}
    return [claim.verdict for claim in controllers.claims(CONFIG, arms)]


def test_claims_follow_the_speeds(known):
    assert judged(7.5) == [HOLDS, HOLDS, HOLDS]
    assert judged(6.0) == [HOLDS, HOLDS, FAILS]
    assert judged(5.65) == [UNDECIDED, UNDECIDED, FAILS]
    assert judged(5.0) == [FAILS, FAILS, FAILS]


def test_the_drivers_epochs_count_too(monkeypatch):
    """A learnt controller whose seeds agree does not beat a driver whose own mean is uncertain by more than the gap."""
    monkeypatch.setattr(drivers, "speeds", lambda *given: {drivers.HUMANS: np.array([4.0, 7.0])})
    (verdict,) = judged(6.0, apart=np.zeros(3))
    assert verdict == UNDECIDED


def test_a_small_run(tmp_path):
    """Really trained and tested, with two seeds that end at different speeds."""
    arms = find.recipe("xu2024/controllers").build(CONFIG)
    (arm,) = arms.values()
    run = train(
        arm.method, arm.federation, rounds=arm.rounds, seeds=2, engine=arm.engine,
        evaluation=arm.evaluation, eval_every=arm.eval_every,
    )  # fmt: skip
    assert [row["round"] for row in run.rows if "return" in row] == [0, 2, 4]
    assert run.returns.shape == (2, 7)
    claims = controllers.claims(CONFIG, {controllers.FIRL: Outcome(run.rows, np.asarray(run.returns))})
    learnt = 20.0 * np.asarray(run.returns).mean()
    human = drivers.speeds(CONFIG.length, CONFIG.acceleration)[drivers.HUMANS].mean()
    assert claims[0].numbers["gap"] == pytest.approx(learnt - human, rel=1e-4)


def test_settings_are_those_written_down():
    config = find.recipe("xu2024/controllers").config()
    assert (config.acceleration, config.gamma, config.gae_lambda, config.relative) == (3.0, 0.995, 0.98, True)
    assert (config.last, config.log_std, config.hold) == (0.01, -1.0, 20)
    (arm,) = controllers.build(replace(config, epochs=1)).values()
    assert float(arm.federation.env_params.acceleration[0]) == 3.0
