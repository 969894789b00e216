"""What the recipes on Figure Eight share (Xu et al. 2024, §VII): the world, in arrays or in SUMO; PPO; how it is measured.

Of Table III: m = 7, T = 1500, P = 250, gamma 0.9, clip 0.2, 4 passes over a mini-batch. What the paper does not say is ours:
two layers of 64 tanh units for actor and critic, Adam, lambda 0.95 of GAE, observations filtered, and the settings of the
world (`environments/figure_eight.py`). An epoch is 6 mini-batches.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.algorithms.fedavg import Method
from fedrl.algorithms.fmarl import fmarl
from fedrl.engines.engine import Engine
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments import figure_eight
from fedrl.federation import Federation
from fedrl.links.graphs import SIXTEEN_LINKS, THIRTEEN_LINKS
from fedrl.local.decay import constant as undecayed
from fedrl.local.decay import exponential
from fedrl.local.learner import BuildLearner
from fedrl.local.paces import Pace, given
from fedrl.local.ppo import ppo
from fedrl.local.steps import constant
from fedrl.plots import style
from fedrl.policies.mlp import gaussian_mlp
from fedrl.recipes import judging
from fedrl.recipes.recipe import Arm, Claim, Outcome, RecipeError
from fedrl.recipes.xu2024 import _references as references
from fedrl.records.measure import sampled_return
from fedrl.theory.utility import Row

GRAPHS = {0: None, 13: THIRTEEN_LINKS, 16: SIXTEEN_LINKS}
AGENTS, GAMMA, SPEED = 7, 0.9, 20.0  # m/s that earn 1


@dataclass(frozen=True)
class Config:
    simulator: str = "arrays"  # "arrays" or "sumo" (real, some hundred times slower)
    epochs: int = 60  # U
    length: int = 1500  # T: steps of an epoch
    minibatch: int = 250  # P: steps between two local updates
    eta: float = 1e-3  # Table III says 1e-4, its Figure 5 that 1e-3 is better
    hidden: int = 64
    repetitions: int = 5  # of a test epoch
    test_every: int = 10  # epochs


PAPER_SIZE = {"epochs": 500}


def learner(config: Config, eta: float | None = None) -> BuildLearner:
    rate = config.eta if eta is None else eta
    return ppo(
        policy=gaussian_mlp(config.hidden, config.hidden),
        value=(config.hidden, config.hidden),
        steps=config.minibatch,
        copies=1,
        epochs=4,
        minibatch=config.minibatch,
        rate=constant(rate),
        critic_rate=rate,
        critic_epochs=4,
        critic_minibatch=config.minibatch,
        filter_rewards=False,
    )


def variant(config: Config, row: Row, eta: float | None = None) -> Method:
    """The method of a row of Table IV."""
    return fmarl(
        learner(config, eta),
        tau=row.tau,
        pace=pace(row),
        decay=undecayed if row.lam is None else exponential(row.lam),
        graph=GRAPHS[row.links],
        interactions=row.E,
    )


def pace(row: Row) -> Pace | None:
    return None if set(row.tau_i) == {row.tau} else given(row.tau_i)


def arm(config: Config, method: Method, tau: int = 1) -> Arm:
    """tau local updates a round: so many rounds that all arms see the same epochs."""
    if config.length % config.minibatch or config.epochs < 1:
        raise RecipeError(
            f"length={config.length} must be a multiple of minibatch={config.minibatch}, and epochs at least 1, "
            f"got {config.epochs}; try --set minibatch=250 --set length=1500"
        )
    a_epoch = config.length // config.minibatch
    return Arm(
        method,
        _federation(config),
        max(1, config.epochs * a_epoch // tau),
        _engine(config),
        measure=sampled_return(config.repetitions, per_step=True),
        every=max(1, round(config.test_every * a_epoch / tau)),
    )


def _federation(config: Config) -> Federation:
    if config.simulator == "sumo":
        from fedrl.environments.parallel import pettingzoo
        from fedrl.environments.traffic import FigureEight

        return pettingzoo(partial(FigureEight, horizon=config.length), limit=config.length, gamma=GAMMA)
    if config.simulator != "arrays":
        raise RecipeError(f"simulator is arrays or sumo, got {config.simulator!r}; try --set simulator=sumo")
    worlds = jax.tree.map(lambda x: jnp.broadcast_to(x, (AGENTS,)), figure_eight.world(v_ref=SPEED))
    return Federation(figure_eight.environment(GAMMA, config.length), worlds)


def _engine(config: Config) -> Engine:
    return one_at_a_time() if config.simulator == "sumo" else fused("vmap")


def above(text: str, better: np.ndarray, worse: np.ndarray) -> Claim:
    """By 3 standard errors, seeds being shared between the arms; NAS."""
    gap, error = judging.mean_se(better - worse)
    return Claim(f"{text}, by 3 SE", judging.sign(gap, error), {"gap": gap, "se": error, "seeds": better.size})


def whole(outcome: Outcome) -> np.ndarray:
    """NAS of each seed, averaged over all tests: a fast learner is high here."""
    return outcome.curve()[1].mean(axis=0)


def draw(config: Config, arms: dict[str, Outcome], path: Path, title: str) -> Path:
    """NAS by epoch, with the constant policy and the traffic that SUMO drives beside the curves."""
    figure, axes = style.axes()
    for index, (name, outcome) in enumerate(arms.items()):
        rounds, returns = outcome.curve()
        mean, error = returns.mean(axis=1), [judging.mean_se(row)[1] for row in returns]
        epochs = rounds * config.epochs / max(rounds[-1], 1)
        axes.plot(epochs, mean, label=name, linewidth=1.6, **style.look(index))
        if returns.shape[1] > 1:
            axes.fill_between(
                epochs, mean - error, mean + error, color=style.look(index)["color"], alpha=0.18, linewidth=0
            )
    for shade, (name, speed) in zip(("0.3", "0.5", "0.7"), references.speeds(config.length).items(), strict=False):
        axes.axhline(speed / SPEED, color=shade, linestyle=":", linewidth=1.4, label=f"{name} ({speed:.2f} m/s)")
    axes.set(xlabel="epoch", ylabel=f"normalised average speed (of {SPEED:g} m/s)")
    style.legend(axes)
    return style.save(figure, path, title)
