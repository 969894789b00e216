"""Safeguards on CartPole: the arms are what their names say, a tiny run is judged, and claims follow the numbers."""

import numpy as np
import pytest
from support.decisions import decided
from support.drawn import lines, saved_figures

from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments import experiment, orders
from fedrl.experiments.recipe import Outcome
from fedrl.recipes.wang2024 import safeguards
from fedrl.records import folder

CONFIG = safeguards.Config(betas=(0.2,), hessian_betas=(), etas=(0.1, 0.2))
NAMES = ["PAvg", "PAvg, clipped", "FedSVRPG-M as written", "FedSVRPG-M, beta = 0.2"]


def outcomes(levels: dict[str, tuple[float, float]]) -> dict[str, Outcome]:
    """Two measurements at a level for each eta; four seeds, which differ from arm to arm."""
    found = {}
    for index, (name, pair) in enumerate(levels.items(), start=1):
        for eta, level in zip(CONFIG.etas, pair, strict=True):
            seeds = level + 0.1 * index * np.arange(4)
            rows = [{"round": i, "return_by_seed": seeds.tolist()} for i in range(2)]
            found[safeguards.arm_name(name, eta)] = Outcome(rows, seeds[:, None])
    return found


def test_the_arms_are_what_their_names_say():
    arms = safeguards.build(CONFIG)
    assert list(arms) == [safeguards.arm_name(name, eta) for eta in CONFIG.etas for name in NAMES]
    openings = []
    for name in NAMES:
        arm = arms[safeguards.arm_name(name, 0.1)]
        openings.append(bool(arm.method(arm.federation).opening))
    assert openings == [False, False, True, True]  # PAvg needs no first direction


@pytest.mark.parametrize(
    ("guarded", "verdicts"),
    [
        ((60.0, 70.0), ["holds", "holds", "holds", "holds"]),
        ((41.0, 30.0), ["does not hold", "does not hold", "holds", "does not hold"]),
        ((60.0, 40.0), ["holds", "does not hold", "holds", "does not hold"]),
        ((10.0, 40.0), ["does not hold", "does not hold", "does not hold", "does not hold"]),
    ],
)
def test_claims_follow_the_numbers(guarded, verdicts):
    levels = dict(zip(NAMES, ((45.0, 65.0), (50.0, 60.0), (20.0, 10.0), guarded), strict=True))
    assert [claim.verdict for claim in safeguards.claims(CONFIG, outcomes(levels))] == verdicts * 2


def test_what_is_drawn(tmp_path):
    levels = dict(zip(NAMES, ((45.0, 65.0), (50.0, 60.0), (20.0, 10.0), (60.0, 70.0)), strict=True))
    with saved_figures() as figures:
        safeguards.draw(CONFIG, outcomes(levels), tmp_path)
    left, right = (lines(panel) for panel in figures[0].axes)
    assert left["FedSVRPG-M as written"] == ([0, 1], pytest.approx([20.45] * 2))
    assert right["PAvg"] == ([0, 1], pytest.approx([65.15] * 2))


def test_a_tiny_run_is_judged_and_drawn(tmp_path):
    small = {"betas": "0.5", "hessian_betas": "0.5", "etas": "0.001", "rounds": 1, "local_steps": 2, "horizon": 10}
    order = orders.order("wang2024/safeguards", overrides=small | {"clients": 2, "episodes": 2}, seeds=2)
    with folder.claim(tmp_path / "run", order.plain(), resume=False) as place:
        experiment.run(order, place, engine=one_at_a_time(), warn=pytest.fail)
    claims = experiment.claims(order, tmp_path / "run")
    assert len(claims) == 6
    best = claims[2].numbers
    assert claims[2].verdict == decided(best["gap"], best["se"])
    assert (tmp_path / "run" / "figures" / "safeguards.png").exists()
