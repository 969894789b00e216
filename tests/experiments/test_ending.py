"""When arms end early: what the command line gives goes before what an arm has of its own."""

import math

import pytest
from support import tiny_recipes
from support.federations import federation

from fedrl.algorithms.fedavg import pavg
from fedrl.engines.fused import fused
from fedrl.experiments import experiment, find, orders
from fedrl.experiments.ending import Ending
from fedrl.experiments.outcomes import carried_on
from fedrl.experiments.recipe import Arm, Outcome, RecipeError

ARM = Arm(pavg(eta=0.1, local_steps=2, horizon=5), federation(3), 6, fused("vmap"))


def test_what_is_given_goes_first_and_keeps_the_best():
    assert Ending().of(ARM) == Ending(None, None, False)
    assert Ending(keep_best=True).of(ARM) == Ending(None, None, True)
    assert Ending(stop_at=0.0).of(ARM._replace(stop_at=5.0, patience=2)) == Ending(0.0, 2, True)
    assert Ending().of(ARM._replace(keep_best=True)).keep_best


def test_on_a_command_line_and_in_run_toml():
    assert Ending(0.0, 3, True).command_line() == ["--stop-at", "0.0", "--patience", "3", "--keep-best"]
    assert Ending(stop_at=0.0).plain() == {"stop_at": 0.0}
    assert Ending(1.0, 2).replaced_by(Ending(patience=5)) == Ending(1.0, 5)


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (Ending(stop_at=math.nan), "stop_at expects a return, got nan"),
        (Ending(patience=0), "patience expects a whole number of at least 1, got 0"),
    ],
)
def test_what_makes_no_sense(ending, expected):
    with pytest.raises(RecipeError, match=expected):
        ending.checked()


def test_states_of_all_rounds_need_all_rounds(monkeypatch):
    """Before there is a folder; an arm's own mistake is found there too."""
    arms = {"PAvg": ARM._replace(snapshot=lambda algorithm, state: state.server)}
    monkeypatch.setattr(find, "recipe", lambda name: tiny_recipes.TINY._replace(build=lambda config: arms))
    with pytest.raises(RecipeError, match="PAvg saves its state in every evaluated round.*leave out --stop-at"):
        experiment.check(orders.order("tiny", ending=Ending(patience=1)))
    arms["PAvg"] = ARM._replace(patience=-1)
    with pytest.raises(RecipeError, match="patience expects a whole number of at least 1, got -1"):
        experiment.check(orders.order("tiny"))


def test_an_early_end_is_carried_on_for_claims():
    """Evaluated in rounds 2, 4, …; it ended in round 4 of 7. One that played all its rounds stays as it is."""
    rows = [{"round": 0, "return": 1.0}, {"round": 4, "return": 3.0, "env_steps": 8, "train/updates": 2}]
    more = carried_on(Outcome(rows, None), ARM._replace(rounds=7, eval_every=2)).rows
    assert more[:2] == rows
    assert more[2:] == [{"round": round, "return": 3.0, "env_steps": 8} for round in (6, 7)]
    assert carried_on(Outcome(rows, None), ARM._replace(rounds=4, eval_every=2)).rows == rows
