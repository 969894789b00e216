"""Figure 2 of Xie & Song 2025: sixty Mountain Cars of medium heterogeneity, five ways of choosing who trains.

The paper's settings are in its Tables 1 and 4; what it leaves out (entropy bonus, gradient clip, filters, warm-up) follows
its published code and is in the Config. Power-of-Choice takes the highest loss, as the paper says.
"""

from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xie2025 import _claims as says
from fedrl.recipes.xie2025 import _mountain_cars as cars
from fedrl.recipes.xie2025._methods import BASELINES, FEDPOHCS, FOUR, ONE_PHASE
from fedrl.recipes.xie2025._mountain_cars import Config


def build(config: Config) -> dict[str, Arm]:
    return {name: cars.arm(config, name) for name in (*FOUR, ONE_PHASE)}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return [
        *(says.learns_faster(arms, FEDPOHCS, name) for name in BASELINES),
        *(says.ends_above(arms, FEDPOHCS, name) for name in BASELINES),
        says.learns_faster(arms, FEDPOHCS, ONE_PHASE),
        says.comparable(arms, ONE_PHASE, FEDPOHCS),
    ]


RECIPE = Recipe(
    **facts("xie2025/fig2"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    paper_settings={"rounds": 500, "warm_up": 100_000, "eval_every": 5},
    paper_seeds=3,
    claim_texts=(
        "FedPOHCS converges faster than FedAvg, Power-of-Choice and GradientNorm",
        "FedPOHCS ends above each of them",
        "FedPOHCS converges faster in two phases than in one",
        "in one phase it ends about as high",
    ),
)
