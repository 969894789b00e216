"""The recipes on client drift: arms that differ as they should, claims that follow the numbers."""

import numpy as np
import pytest
from support.decisions import decided, worst
from support.drawn import errors, lines, saved_figures
from support.federations import federation

from fedrl import train
from fedrl.experiments import experiment, orders
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.recipes.wang2024 import _drift, conflict, drift
from fedrl.records import folder


def test_two_step_sizes_move_as_far_but_stay_near():
    """One local step is PAvg's to rounding; of several, the server's step is K times a client's."""
    config, where = _drift.Settings(eta=0.4, batch=2), federation(2)

    def learnt(name: str, local_steps: int) -> np.ndarray:
        method = _drift.method(config, _drift.Kind(name), local_steps=local_steps, horizon=4)
        return np.asarray(train(method, where, rounds=1, seed=1).theta)

    np.testing.assert_allclose(learnt(_drift.TWO_STEPS, 1), learnt(_drift.BASELINE, 1), rtol=1e-6)
    plain, careful = learnt(_drift.BASELINE, 4), learnt(_drift.TWO_STEPS, 4)
    assert 0.5 < np.linalg.norm(careful) / np.linalg.norm(plain) < 2.0
    assert np.abs(careful - plain).max() > 1e-3


def test_a_tiny_run_is_judged_and_drawn(tmp_path):
    small = {"betas": "0.5", "rounds": 2, "eval_every": 1, "local_steps": 2, "batch": 2, "first_batch": 2}
    order = orders.order("wang2024/drift", overrides=small, seeds=3)
    with folder.claim(tmp_path / "run", order.plain(), resume=False) as place:
        experiment.run(order, place, warn=pytest.fail)
    for claim in experiment.claims(order, tmp_path / "run"):
        if (
            "as high as" not in claim.text and "each smaller" not in claim.text
        ):  # one is with a margin; one beta has no next
            rows = [claim.numbers] if "gap" in claim.numbers else claim.numbers.values()
            assert claim.verdict == worst([decided(row["gap"], row["se"]) for row in rows])
    assert (tmp_path / "run" / "figures" / "drift.png").exists()


CONFIG = drift.Config(betas=(0.5, 0.1), hessian_betas=(), far=(1.0,))
NAMES = ["PAvg", "PAvg, two step sizes", "FedSVRPG-M, beta = 0.5", "FedSVRPG-M, beta = 0.1"]


def outcomes(ends: dict[str, float], norms: dict[str, float], apart: float = 1e-4) -> dict[str, Outcome]:
    """Curves from 1.07 through the middle to their ends; four seeds, which move apart."""
    found = {}
    for index, name in enumerate(NAMES, start=1):
        seeds = apart * index * np.arange(4)
        norm = {"gradient_norm_by_seed": np.sqrt(norms[name] + seeds).tolist()}
        levels = (1.07, 0.5 * (1.07 + ends[name]), ends[name])
        rows = [{"round": i, "return_by_seed": (level + i * seeds).tolist()} | norm for i, level in enumerate(levels)]
        found[name] = Outcome(rows, (ends[name] + 2 * seeds)[:, None])
    return found


def test_claims_follow_the_numbers():
    assert list(drift.build(CONFIG)) == NAMES
    as_expected = dict(zip(NAMES, (1.0, 1.199, 1.1, 1.18), strict=True))
    small = dict(zip(NAMES, (0.5, 0.01, 0.1, 0.01), strict=True))
    found = drift.claims(CONFIG, outcomes(as_expected, small))
    assert [claim.verdict for claim in found] == ["holds"] * 9
    other_way = dict(zip(NAMES, (1.19, 1.1, 1.18, 1.17), strict=True))
    large = dict(zip(NAMES, (0.1, 0.01, 0.5, 0.6), strict=True))
    assert [claim.verdict for claim in drift.claims(CONFIG, outcomes(other_way, large))] == ["does not hold"] * 9


def test_differences_without_spread_decide_nothing():
    same = outcomes(dict.fromkeys(NAMES, 1.1), dict.fromkeys(NAMES, 0.1), apart=0.0)
    assert {claim.verdict for claim in drift.claims(CONFIG, same)} == {"undecided"}


def test_what_is_drawn(tmp_path):
    ends, norms = dict(zip(NAMES, (1.0, 1.2, 1.1, 1.18), strict=True)), dict.fromkeys(NAMES, 0.1)
    with saved_figures() as figures:
        drift.draw(CONFIG, outcomes(ends, norms, apart=0.0), tmp_path)
    returns, squared = figures[0].axes
    assert lines(returns)["PAvg"] == ([0, 1, 2], pytest.approx([1.07, 1.035, 1.0]))
    assert lines(returns)["optimum: 1.2"][1] == [1.2, 1.2]
    assert [line.get_ydata().tolist() for line in squared.get_lines()] == [pytest.approx([0.1] * 3)] * 4


def conflicting(levels: dict[str, float], config: conflict.Config) -> dict[str, Outcome]:
    """Final and only values of each method, the same in all cells; five seeds. Methods are named by their label."""
    arms = {}
    for index, (name, level) in enumerate(levels.items(), start=1):
        seeds = level + 1e-3 * index * np.arange(5)
        rows = [{"round": i, "return_by_seed": seeds.tolist()} for i in range(2)]
        arms |= {f"{name}, {cell}": Outcome(rows, seeds[:, None]) for cell in conflict.cells(config)}
    return arms


SMALL = conflict.Config(betas=(0.2,), hessian_betas=(), local_steps=(2, 4), horizons=(3,), conflicts=(0.0, 1.0))
METHODS = ["PAvg", "PAvg, two step sizes", "FedSVRPG-M, beta = 0.2"]


@pytest.mark.parametrize(
    ("levels", "verdicts", "what"),
    [
        ((1.0, 1.5, 1.2), ["holds", "holds", "does not hold"], "both"),
        ((1.0, 1.1, 1.2), ["holds", "does not hold", "does not hold"], "momentum"),
        ((1.0, 1.5, 0.8), ["does not hold", "holds", "holds"], "two steps"),
        ((1.0, 1.0, 1.0), ["undecided", "holds", "holds"], "neither"),
    ],
)
def test_claims_on_conflict_follow_the_numbers(levels, verdicts, what):
    arms = conflicting(dict(zip(METHODS, levels, strict=True)), SMALL)
    assert list(conflict.build(SMALL)) == list(arms)
    assert [claim.verdict for claim in conflict.claims(SMALL, arms)] == verdicts * 2
    values = {name: outcome.final() for name, outcome in arms.items()}
    assert conflict.helps(SMALL, values, conflict.cells(SMALL)[0]) == what


def test_what_is_drawn_of_conflict(tmp_path):
    with saved_figures() as figures:
        conflict.draw(SMALL, conflicting(dict(zip(METHODS, (1.0, 1.5, 1.2), strict=True)), SMALL), tmp_path)
    alike, apart = figures[0].axes
    assert [points[1] for points, _ in errors(apart)] == [pytest.approx([0.502] * 2), pytest.approx([0.204] * 2)]
    assert [it.get_text() for it in alike.texts] == ["both", "both"]


def test_a_tiny_run_on_conflict(tmp_path):
    small = {
        "betas": "0.2",
        "hessian_betas": "0.2",
        "local_steps": "2",
        "horizons": "2",
        "conflicts": "1",
        "clients": 2,
    }
    small |= {"rounds": 1, "batch": 2, "first_batch": 2}
    order = orders.order("wang2024/conflict", overrides=small, seeds=3)
    with folder.claim(tmp_path / "run", order.plain(), resume=False) as place:
        experiment.run(order, place, warn=pytest.fail)
    assert len(experiment.claims(order, tmp_path / "run")) == 6
    assert (tmp_path / "run" / "figures" / "conflict.png").exists()


def test_an_odd_number_of_clients_is_refused():
    with pytest.raises(RecipeError, match="even"):
        conflict.build(conflict.Config(clients=3))
