"""Figures 6a to 6c of Xu et al. 2024, on Figure Eight: local updates between two averagings, decay, talk of neighbours."""

from collections.abc import Callable

from fedrl.experiments.recipe import Claim, Outcome, Recipe
from fedrl.recipes import facts
from fedrl.recipes.xu2024 import _curves as curves
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024 import _variants as variants
from fedrl.recipes.xu2024._figure_eight import PAPER_SETTINGS, Config
from fedrl.theory.utility import TABLE_IV, Row

Pairs = list[tuple[str, str]]  # arms, the first of which the figure shows above the second


def _row(
    figure: str, title: str, *, rows: tuple[Row, ...], pairs: Callable[..., Pairs], claim_texts: tuple[str, ...]
) -> Recipe[Config]:
    """The methods of some rows of Table IV; `pairs` is given their names in that order."""

    def claims(config: Config, outcomes: dict[str, Outcome]) -> list[Claim]:
        whole = {name: curves.whole(outcome) for name, outcome in outcomes.items()}
        ordered = pairs(*(variants.name(row) for row in rows))
        return [curves.above(f"{a} is above {b} (mean over all tests)", whole[a], whole[b]) for a, b in ordered]

    return Recipe(
        **facts(f"xu2024/fig{figure}"),
        seeds=2,
        config=Config,
        build=lambda config: variants.arms(config, rows),
        claims=claims,
        draw=lambda config, outcomes, folder: [
            eight.draw(config, outcomes, folder / "speed.png", f"{title} (Fig. {figure})")
        ],
        paper_settings=PAPER_SETTINGS,
        paper_seeds=5,
        claim_texts=claim_texts,
    )


def _by_tau(one: str, ten: str, fifteen: str, from_10: str, from_5: str, from_1: str) -> Pairs:
    """By tau, and at tau = 15 by the mean of tau_i."""
    return [(one, ten), (ten, fifteen), (from_10, fifteen), (from_5, from_10), (from_1, from_5)]


def _by_lambda(plain: str, *decayed: str) -> Pairs:
    return [*((name, plain) for name in decayed), (decayed[1], decayed[0]), (decayed[2], decayed[1])]


def _by_talk(fifteen: str, varied: str, thin: str, dense: str, twice: str, varied_thin: str) -> Pairs:
    return [(thin, fifteen), (varied_thin, varied), (dense, thin), (twice, thin)]


FIG6A = _row(
    "6a",
    "Variation-aware periodic averaging",
    rows=TABLE_IV[:6],
    pairs=_by_tau,
    claim_texts=(
        "fewer local updates tau between two averagings learn faster",
        "so does a smaller mean of tau_i",
    ),
)
FIG6B = _row(
    "6b",
    "Decay of local updates",
    rows=TABLE_IV[5:9],
    pairs=_by_lambda,
    claim_texts=("with decay, FIRL_D is above FIRL", "a smaller lambda is above a larger one"),
)
FIG6C = _row(
    "6c",
    "Consensus between neighbours",
    rows=(TABLE_IV[2], TABLE_IV[5], *TABLE_IV[9:]),
    pairs=_by_talk,
    claim_texts=("with consensus, FIRL_C is above FIRL", "more links and more interactions are above fewer"),
)
