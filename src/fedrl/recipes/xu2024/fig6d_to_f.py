"""Figures 6d to 6f of Xu et al. 2024: talk between neighbours on Merge, with PPO, TRPO and TAC as learners."""

from collections.abc import Callable
from functools import partial

from fedrl.experiments.recipe import Recipe
from fedrl.learners.optimizers import constant
from fedrl.learners.ppo import ppo
from fedrl.learners.tac import tac
from fedrl.learners.trpo import trpo
from fedrl.recipes import facts
from fedrl.recipes.xu2024 import _merge as merge
from fedrl.recipes.xu2024._merge import PAPER_SETTINGS, Config, Improve


def _row(figure: str, learner: str, improve: Callable[[Config], Improve]) -> Recipe[Config]:
    title = f"Consensus on Merge with {learner} (Fig. {figure})"
    return Recipe(
        **facts(f"xu2024/fig{figure}"),
        seeds=2,
        config=Config,
        build=lambda config: merge.build(config, improve(config)),
        claims=merge.claims,
        draw=lambda config, outcomes, folder: [merge.draw(config, outcomes, folder / "speed.png", title)],
        paper_settings=PAPER_SETTINGS,
        paper_seeds=5,
        claim_texts=(
            "with consensus, FIRL_C is above FIRL, over all tests and at the end",
            "FIRL varies more from test to test than FIRL_C",
        ),
    )


def _ppo(config: Config) -> Improve:
    return partial(ppo, epochs=4, minibatch=config.minibatch, learning_rate=constant(config.eta))


def _tac(config: Config) -> Improve:
    """The Tsallis actor-critic, in mini-batches like PPO."""
    return partial(tac, epochs=4, minibatch=config.minibatch, learning_rate=constant(config.eta))


FIG6D = _row("6d", "PPO", _ppo)
FIG6E = _row("6e", "TRPO", lambda config: trpo)
FIG6F = _row("6f", "TAC", _tac)
