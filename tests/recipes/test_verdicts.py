"""Hand-made outcomes that must give a certain verdict for every claim, and the other one the other way round."""

import numpy as np
import pytest

from fedrl.experiments import find
from fedrl.experiments.judge import FAILS, HOLDS, UNDECIDED
from fedrl.experiments.recipe import Outcome
from fedrl.recipes import quickstart
from fedrl.recipes.fedagent import fig2 as fedagent_fig2
from fedrl.recipes.fedagent import partitions, smollm2
from fedrl.recipes.fedagent import quickstart as fedagent_quickstart
from fedrl.recipes.labbi2025 import _gate, _speed_up, theorem31
from fedrl.recipes.labbi2025._family import FED_Q, FEDPG
from fedrl.recipes.labbi2025.fig1a_fig7 import FIG1A
from fedrl.recipes.labbi2025.fig1b_fig1c import FIG1B
from fedrl.recipes.xu2024 import _curves, _merge, fig4, fig7
from fedrl.theory.utility import TABLE_IV_PRICES

APART = 0.001 * np.arange(4)  # between the four seeds


def outcome(*levels: float, end: float | None = None, apart: np.ndarray = APART) -> Outcome:
    """Measured in every round; it ends where the last measurement was, unless `end` says where."""
    counts = {"train/updates": 7, "train/messages": 26}
    rows = [{"round": i, "return_by_seed": (level + apart).tolist()} | counts for i, level in enumerate(levels)]
    final = (levels[-1] if end is None else end) + apart
    return Outcome(rows, final[:, None] + np.array([[-0.5, 0.5]]))  # two clients, whose mean counts


def verdicts(claims) -> list[str]:
    return [claim.verdict for claim in claims]


# The levels of the arms, in their order, with which all claims of the figure hold
XU2024 = {
    "fig4": (4, (0.1, 0.5, 0.4, 0.3)),
    "fig5": (4, (0.3, 0.5, 0.4, 0.2, 0.3, 0.5, 0.4, 0.2)),
    "fig6a": (5, (0.9, 0.8, 0.1, 0.2, 0.3, 0.4)),
    "fig6b": (5, (0.1, 0.2, 0.3, 0.4)),
    "fig6c": (4, (0.1, 0.15, 0.3, 0.4, 0.5, 0.6)),
    "fig7": (8, (0.2, 0.3, 0.4, 0.5, 0.6)),
}


@pytest.mark.parametrize("name", XU2024)
def test_xu2024_both_ways_round(name):
    recipe, (count, levels) = find.recipe(f"xu2024/{name}"), XU2024[name]
    config = recipe.config()
    names = list(recipe.build(config))

    def judged(levels: tuple[float, ...]) -> list[str]:
        arms = {arm: outcome(0.5 * level, level) for arm, level in zip(names, levels, strict=True)}
        return verdicts(recipe.claims(config, arms))

    assert judged(levels) == [HOLDS] * count
    assert judged(tuple(1.0 - level for level in levels)) == [FAILS] * count
    assert judged((0.5,) * len(names)) == [UNDECIDED] * count


def test_xu2024_fig4_tells_learning_fast_from_ending_high():
    arms = {fig4.IRL: outcome(0.1, 0.1, 0.9), fig4.FIRL: outcome(0.8, 0.8, 0.5)}
    arms |= {fig4.SYN: outcome(0.3, 0.3), fig4.ASY: outcome(0.2, 0.2)}
    assert verdicts(fig4.claims(fig4.Config(), arms)) == [HOLDS, FAILS, HOLDS, HOLDS]


def test_xu2024_a_difference_is_taken_within_a_seed():
    """Seeds far apart, but the first arm is 2 above the other with each: 3, 2, 1 above are 2 with error 1 / sqrt(3)."""
    worse, lead = np.array([0.0, 100.0, 200.0]), np.array([3.0, 2.0, 1.0])
    claim = _curves.above("a above b", worse + lead, worse)
    assert claim.verdict == HOLDS
    assert claim.numbers == {"gap": pytest.approx(2.0), "se": pytest.approx(3.0**-0.5), "seeds": 3}
    assert _curves.above("b above a", worse, worse + lead).verdict == FAILS


@pytest.mark.parametrize("name", ["fig6d", "fig6e", "fig6f"])
def test_xu2024_on_merge(name):
    """Whole, end, and how far one test is from the next: 0.1, and 0.4 with the other."""
    recipe = find.recipe(f"xu2024/{name}")
    config = recipe.config()
    calm, wild = outcome(0.5, 0.6, 0.5), outcome(0.1, 0.5, 0.1)
    plain, talking = _merge.names(config)
    assert verdicts(recipe.claims(config, {plain: wild, talking: calm})) == [HOLDS] * 3
    assert verdicts(recipe.claims(config, {plain: calm, talking: wild})) == [FAILS] * 3
    high = outcome(0.7, 1.1, 0.7)
    assert verdicts(recipe.claims(config, {plain: calm, talking: high})) == [HOLDS, HOLDS, FAILS]


def test_xu2024_speed_per_message():
    """Two clients upload in each round, and 26 messages go between neighbours; only C_1 and W_1 cost anything here."""
    assert (TABLE_IV_PRICES[0], TABLE_IV_PRICES[2]) == (1.0, 0.001)
    rounds, found = fig7.efficiency(outcome(0.0, 4.052, 8.104, apart=np.zeros(4)))
    assert rounds.tolist() == [1, 2]
    np.testing.assert_allclose(found, np.full((2, 4), 2.0))  # 4.052 / 2.026, 8.104 / 4.052


def gate(fed_q: float, fedpg: float, known: _gate.Known, monkeypatch) -> list:
    monkeypatch.setattr(_gate, "known", lambda config, instances: known)
    return FIG1B.claims(FIG1B.config(), {FED_Q: outcome(fed_q)} | {name: outcome(fedpg) for name in FEDPG})


def test_labbi2025_gate_both_ways_round(monkeypatch):
    known = _gate.Known(uniform=1.0, deterministic=2.0, stationary=3.0)
    found = gate(1.9, 2.5, known, monkeypatch)
    assert verdicts(found) == [HOLDS] * 8
    assert found[2].numbers["difference"] == pytest.approx(0.6)
    assert found[3].numbers["difference"] == pytest.approx(0.5015)  # the mean of the seeds is 0.0015 above the level
    assert found[3].numbers["share from uniform to best stationary"] == pytest.approx(1.5015 / 2.0)
    assert verdicts(gate(2.6, 1.5, known, monkeypatch)) == [HOLDS] + [FAILS] * 7
    assert verdicts(gate(1.4, 1.5, known, monkeypatch)) == [HOLDS, HOLDS] + [HOLDS, FAILS] * 3
    nothing = known._replace(stationary=2.0 + 1e-6)  # no more than rounding
    assert verdicts(gate(1.9, 1.5, nothing, monkeypatch)) == [FAILS, HOLDS] + [FAILS, FAILS] * 3
    assert verdicts(gate(1.9, 1.9, known, monkeypatch))[2] == UNDECIDED


def test_labbi2025_speed_up_both_ways_round(monkeypatch):
    """Shares of what can be learnt from 10 to 20: one curve is five times as fast as the other and ends at the top."""
    monkeypatch.setattr(_speed_up, "ends", lambda config, task, count: _speed_up.Ends(uniform=10.0, best=20.0))
    config = FIG1A.config(clients=(2, 10), rounds=10, control=True)
    slow = outcome(*(10.0 + 0.5 * n for n in range(11)), apart=0.1 * APART)
    fast = outcome(*(min(20.0, 10.0 + 2.5 * n) for n in range(11)), apart=0.1 * APART)

    def judged(few: Outcome, many: Outcome, held: Outcome) -> list:
        arms = {}
        for method in FEDPG:
            arms |= {_speed_up.arm_name(method, 2): few, _speed_up.arm_name(method, 10): many}
            arms |= {_speed_up.control_name(method, config): held}
        return FIG1A.claims(config, arms)

    found = judged(slow, fast, held=slow)
    assert verdicts(found) == [HOLDS] * 12
    assert found[0].numbers["M=10 minus M=2"] == pytest.approx(0.2)  # after round 1: 12.5 and 10.5
    assert found[1].numbers["M=10 minus M=2"] == pytest.approx(0.5)
    assert found[2].numbers["speed-up M=10"] == pytest.approx(5.0, rel=1e-3)  # rounds 10 and 2
    assert verdicts(judged(fast, slow, held=fast)) == [FAILS] * 12
    assert verdicts(judged(slow, fast, held=fast)) == [HOLDS, HOLDS, HOLDS, UNDECIDED] * 3


def test_labbi2025_theorem31_follows_the_returns(monkeypatch):
    """The exact values, which take a minute, are given: 4 < 8, 1 < 2 and, the wrong way round, 3 < 2."""
    monkeypatch.setattr(theorem31, "_known", lambda: (4.0, 8.0))
    monkeypatch.setattr(theorem31.counter_examples, "gap_b2", lambda: (1.0, 2.0))
    monkeypatch.setattr(theorem31.counter_examples, "gap_b1", lambda: (3.0, 2.0))

    def judged(s_fedpg: float, fed_q: float) -> list[str]:
        arms = {theorem31.S_FEDPG: outcome(s_fedpg, apart=np.zeros(4)), FED_Q: outcome(fed_q, apart=np.zeros(4))}
        return verdicts(theorem31.claims(theorem31.Config(), arms))

    assert judged(7.96, 4.0) == [HOLDS, HOLDS, FAILS, HOLDS, HOLDS]
    assert judged(7.88, 4.1) == [HOLDS, HOLDS, FAILS, FAILS, FAILS]
    assert judged(8.16, 2.0) == [HOLDS, HOLDS, FAILS, FAILS, HOLDS]
    assert theorem31._strict("2 < 2", 2.0, 2.0).verdict == FAILS


def test_quickstart_both_ways_round():
    def judged(aware: float, plain: float, own: float) -> list[str]:
        arms = {quickstart.AWARE: outcome(aware), quickstart.PLAIN: outcome(plain), quickstart.OWN: outcome(own)}
        return verdicts(quickstart.claims(quickstart.Config(), arms))

    assert judged(3.0, 2.0, 1.0) == [HOLDS, HOLDS]
    assert judged(2.0, 3.0, 1.0) == [HOLDS, FAILS]
    assert judged(2.0, 1.0, 3.0) == [FAILS, HOLDS]


def test_fedagent_both_ways_round():
    start, fig2, small = fedagent_quickstart, fedagent_fig2, smollm2

    def judged(together: Outcome, other: Outcome) -> list[str]:
        return verdicts(
            [
                *start.claims(start.Config(), {start.FEDERATED: together, start.ALONE: other}),
                *fig2.claims(fig2.Config(), {fig2.SERVER: together, fig2.CENTRALISED: other}),
                *small.claims(small.Config(), {small.FEDERATED: together}),
            ]
        )

    # above its start; above the other; above its start; ends near the other; the other is ahead at first; above its start
    assert judged(outcome(0.2, 0.3, 0.6), outcome(0.2, 0.5, 0.58)) == [HOLDS] * 6
    assert judged(outcome(0.4, 0.5, 0.3), outcome(0.2, 0.3, 0.4)) == [FAILS] * 6
    assert judged(outcome(0.4, 0.5, 0.4, 0.4, 0.6), outcome(0.2, 0.4, 0.8, 0.2, 0.3))[4] == HOLDS  # 0.6 to 0.45


def test_fedagent_partitions_both_ways_round(monkeypatch):
    monkeypatch.setattr(partitions.study, "Study", lambda config: config)

    def judged(preference, coverage, hardness) -> list[str]:
        spread = {"preference": preference, "coverage": coverage, "hardness": hardness}
        much = ("omega = 0.9", "xi = 1", "xi' = 1")
        assert [list(pair)[1].split(", ")[1] for pair in partitions.fig4.panels(partitions.Config()).values()] == list(
            much
        )
        monkeypatch.setattr(
            partitions, "_spreads", lambda made, what: APART + (spread[what] if _is_much(made) else 1.0)
        )
        return verdicts(partitions.claims(partitions.Config(), {}))

    def _is_much(made) -> bool:
        return made.omega == 0.9 if made.partition == "preference" else made.xi == 1.0

    assert judged(2.0, 2.0, 2.0) == [HOLDS] * 3
    assert judged(0.5, 2.0, 1.0) == [FAILS, HOLDS, UNDECIDED]


def test_one_seed_decides_nothing():
    levels = {fig4.IRL: 0.1, fig4.FIRL: 0.5, fig4.SYN: 0.4, fig4.ASY: 0.3}
    arms = {name: outcome(level, apart=np.zeros(1)) for name, level in levels.items()}
    assert verdicts(fig4.claims(fig4.Config(), arms)) == [UNDECIDED] * 4
