"""The deep recipes of Wang et al. 2024: they build, tiny runs are judged and drawn, and claims follow the numbers."""

import json

import numpy as np
import pytest
from support.decisions import decided, worst

from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments import experiment, find, orders
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.recipes.wang2024 import _betas, _deep, fig1, fig2, table3
from fedrl.records import folder

NAMES = ("fig1-cartpole", "fig1-halfcheetah", "fig2", "table3")
TINY = {"local_steps": 1, "clients": 2, "episodes": 2}


def run(name: str, path, **overrides):
    """Client by client, which compiles fastest."""
    order = orders.order(f"wang2024/{name}", overrides=overrides, seeds=2)
    with folder.claim(path, order.plain(), resume=False) as place:
        experiment.run(order, place, engine=one_at_a_time(), warn=pytest.fail)
    assert len(list((path / "figures").glob("*.png"))) == 1
    return json.loads((path / "verdict.json").read_text())


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_builds(name, paper):
    pytest.importorskip("mujoco")
    order = orders.order(f"wang2024/{name}", paper=paper)
    for arm_name, arm in find.recipe(f"wang2024/{name}").build(order.config).items():
        algorithm = arm.method(arm.federation)
        assert bool(algorithm.opening) == ("PAvg" not in arm_name)  # PAvg needs no first direction
        assert arm.federation.count in (2, 4, 5, 8)


def test_fig1_tiny_run_is_judged(tmp_path):
    claims = run("fig1-cartpole", tmp_path / "run", betas="0.2", rounds=2, eval_every=1, horizon=20, **TINY)
    assert len(claims) == 8  # nothing on FedHAPG-M's best beta, 0.8, which was not asked for
    for claim in claims:
        signs = [decided(it["gap"], it["se"]) for it in claim["numbers"].values() if "gap" in it]
        assert claim["verdict"] == (worst(signs) if "every other" in claim["text"] else signs[0])  # one beta only


def test_table3_tiny_run_is_judged(tmp_path):
    pytest.importorskip("mujoco")
    small = {"betas": "0.8", "tasks": "Walker", "walker_rounds": 1, "walker_horizon": 5} | TINY
    claims = run("table3", tmp_path / "run", **small)
    assert [claim["text"].partition(":")[0] for claim in claims] == ["Walker"]
    walker = claims[0]["numbers"]["PAvg"]
    assert claims[0]["verdict"] == decided(walker["gap"], walker["gap se"])
    assert walker["gap"] != 0.0  # the two arms differ


def outcome(level: float, wiggle: float = 0.1, seeds: int = 8) -> Outcome:
    """A curve that rises to `level`; seeds differ by up to `wiggle`, which changes its sign from row to row."""
    seed = np.linspace(-wiggle, wiggle, seeds)
    curve = [level * share + sign * seed for share, sign in ((0.1, 1), (0.6, -1), (0.9, 1), (1.0, -1))]
    rows = [{"round": n, "return_by_seed": values.tolist()} for n, values in enumerate(curve)]
    return Outcome(rows, np.stack([curve[-1], curve[-1]], axis=1))


def fig1_verdicts(svrpg: dict[float, float], hapg: dict[float, float], steady: str) -> list[str]:
    config = fig1.CartPole()
    arms = {_deep.BASELINE: outcome(80.0)}
    for method, levels in ((_deep.SVRPG, svrpg), (_deep.HAPG, hapg)):
        for beta, level in levels.items():
            arms[_betas.arm_name(method, beta)] = outcome(level, 0.1 if method == steady else 2.0)
    return [claim.verdict for claim in fig1.CART_POLE.claims(config, arms)]


def test_fig1_claims_follow_the_numbers():
    low, high = {0.2: 70.0, 0.5: 71.0, 0.8: 72.0}, {0.2: 95.0, 0.5: 90.0, 0.8: 91.0}
    as_printed = fig1_verdicts(high, {0.2: 70.0, 0.5: 90.0, 0.8: 95.0}, steady=_deep.HAPG)
    assert as_printed == ["holds"] * 10
    # FedSVRPG-M below the baseline; FedHAPG-M above it, but with another beta; the bands the other way round
    assert fig1_verdicts(low, high, steady=_deep.SVRPG) == [
        *["does not hold"] * 4,
        *["holds", "does not hold"] * 2,
        *["does not hold"] * 2,
    ]


def test_fig2_claims_follow_the_numbers():
    def verdicts(levels: dict[int, float]) -> list[str]:
        arms = {fig2.arm_name(m, n): outcome(level) for m in _deep.METHODS for n, level in levels.items()}
        return [claim.verdict for claim in fig2.claims(fig2.Config(), arms)]

    assert verdicts({4: 70.0, 5: 80.0, 8: 90.0}) == ["holds"] * 8
    assert verdicts({4: 80.0, 5: 70.0, 8: 90.0}) == ["does not hold", "holds"] * 4
    assert verdicts({4: 80.0, 5: 80.0, 8: 80.0}) == ["undecided"] * 8


def test_table3_claims_follow_the_numbers():
    def verdicts(walker_baseline: float) -> list[str]:
        levels = {task: {beta: mean for beta, (mean, _) in row.items()} for task, row in table3.PRINTED.items()}
        levels["Walker"][1.0] = walker_baseline
        arms = {f"{t}, {table3.method_name(b)}": outcome(x, 1e-3) for t, row in levels.items() for b, x in row.items()}
        return [claim.verdict for claim in table3.claims(table3.Config(), arms)]

    assert verdicts(299.69) == ["holds", "holds"]
    assert verdicts(310.0) == ["holds", "does not hold"]


@pytest.mark.parametrize("bad", [{"first": "one"}, {"spread": 1.5}, {"betas": (0.2, 1.0)}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(RecipeError, match=r"choose|expected"):
        fig1.CART_POLE.build(fig1.CartPole(**bad))


def test_an_unknown_task_is_refused():
    with pytest.raises(RecipeError, match="choose CartPole or Walker"):
        table3.build(table3.Config(tasks=("Cartpole",)))
