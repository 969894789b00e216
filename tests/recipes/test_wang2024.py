"""Table 2's recipe: it builds, a tiny run is judged and drawn, and bad settings are refused."""

import numpy as np
import pytest
from support.decisions import decided, worst

from fedrl.experiments import experiment, find, orders
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.recipes.wang2024 import table2
from fedrl.records import folder


def test_a_tiny_run_is_judged_and_drawn(tmp_path):
    small = {"betas": "0.5,1", "kappas": "0,1", "rounds": 2, "local_steps": 2, "horizon": 5, "clients": 3}
    order = orders.order("wang2024/table2", overrides=small, seeds=3)
    with folder.claim(tmp_path / "run", order.plain(), resume=False) as place:
        experiment.run(order, place, warn=pytest.fail)
    claims = experiment.claims(order, tmp_path / "run")
    order_of_betas, flat = claims
    signs = [decided(row["gap"], row["se"]) for row in order_of_betas.numbers.values()]
    assert order_of_betas.verdict == worst(signs)
    assert flat.verdict == decided(0.06 - flat.numbers["spread"], flat.numbers["se"])
    assert (tmp_path / "run" / "figures" / "table2.png").exists()


def outcomes(config, values) -> dict[str, Outcome]:
    spread = np.linspace(-0.01, 0.01, 8)[:, None]
    return {table2.name(b, k): Outcome([], values[b, k] + spread) for b in config.betas for k in config.kappas}


def test_claims_follow_the_numbers():
    config = table2.Config(betas=(0.1, 1.0), kappas=(0.0, 1.0))
    ordered = {(0.1, 0.0): 8.0, (0.1, 1.0): 8.0, (1.0, 0.0): 7.0, (1.0, 1.0): 7.0}
    assert [claim.verdict for claim in table2.claims(config, outcomes(config, ordered))] == ["holds", "holds"]
    reversed_at_one = ordered | {(1.0, 1.0): 8.5, (0.1, 1.0): 7.5}
    found = [claim.verdict for claim in table2.claims(config, outcomes(config, reversed_at_one))]
    assert found == ["does not hold", "does not hold"]


def test_the_paper_size_is_the_papers():
    order = orders.order("wang2024/table2", paper=True)
    assert order.seeds == 16_000
    assert len(find.recipe("wang2024/table2").build(order.config)) == 30


@pytest.mark.parametrize("bad", [{"generator": "dens"}, {"first": "one"}, {"logits": "random"}])
def test_unknown_settings_are_refused(bad):
    with pytest.raises(RecipeError, match="choose"):
        table2.build(table2.Config(**bad))
