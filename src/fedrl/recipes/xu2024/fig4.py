"""Figure 4 of Xu et al. 2024: independent learners, federated ones, and federated ones over slow links, on Figure Eight."""

from pathlib import Path

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.delays import delayed
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024._figure_eight import PAPER_SETTINGS, Config

IRL, FIRL, SYN, ASY = "IRL", "FIRL", "FIRL_syn", "FIRL_asy"
DELAY = 2  # epochs, up and down


def build(config: Config) -> dict[str, Arm]:
    firl = fmarl(eight.learner(config), tau=1)
    late = DELAY * config.length // config.minibatch
    return {
        IRL: eight.arm(config, alone(eight.learner(config))),
        FIRL: eight.arm(config, firl),
        SYN: eight.arm(config, delayed(firl, up=late, down=late)),
        ASY: eight.arm(config, delayed(firl, up=late, down=late, every=late)),
    }


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    whole = {name: curves.whole(outcome) for name, outcome in arms.items()}
    return [
        curves.above("FIRL learns faster than IRL (mean over all tests)", whole[FIRL], whole[IRL]),
        curves.above("FIRL ends above IRL", arms[FIRL].final(), arms[IRL].final()),
        curves.above("FIRL_syn is above FIRL_asy (mean over all tests)", whole[SYN], whole[ASY]),
        curves.above("FIRL without delay is above FIRL_asy", whole[FIRL], whole[ASY]),
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    return [eight.draw(config, arms, folder / "speed.png", "Federating independent learners (Fig. 4)")]


RECIPE = Recipe(
    **facts("xu2024/fig4"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=5,
    claim_texts=(
        "FIRL learns faster than IRL",
        "FIRL ends above IRL",
        "FIRL_syn is above FIRL_asy",
        "FIRL without delay is above FIRL_asy",
    ),
)
