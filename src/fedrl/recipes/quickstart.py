"""A first look: twenty clients of two kinds whose best actions contradict each other, and little data each.

The federation is the seven-state task that Labbi et al. 2025 published as their highly heterogeneous Synthetic: one state
has a door to a rich state, which half of the clients open with the first two actions and half with the last two. A
deterministic common policy shuts one half out, so averaging Q tables (QAvg) cannot serve everyone; a stochastic one can.
A client alone meets no contradiction, but its single noisy episode per step misleads it, where a federation averages the
noise away. With more data per step or smaller ones that advantage shrinks and then turns: try --set eta=0.2 --set batch=2.

Why not sixty mountain cars? They are easier to picture, but a minute decides nothing there (docs/reproductions/xie2025.md).
Here returns are exact, and in a minute both effects are beyond three standard errors.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedpg import rs_fedpg
from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite, seven_state
from fedrl.experiments import judge
from fedrl.experiments.headline import headline
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe, RecipeError
from fedrl.federations.federation import Federation, Method
from fedrl.keys import of_seed
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.plots import curves
from fedrl.recipes import facts
from fedrl.theory.common_policies import best_deterministic, best_stationary

AWARE, PLAIN, OWN = "RS-FedPG (heterogeneity-aware)", "QAvg (averaged Q tables)", "alone"
POLICIES = "PAvg (averaged policies)"


@dataclass(frozen=True)
class Config:
    clients: int = 20  # half of each kind
    gamma: float = 0.95  # discount
    rounds: int = 120  # rounds of communication
    local_steps: int = 10  # H: steps between two rounds
    eta: float = 0.5  # step size of the policy gradients
    horizon: int = 20  # T: steps of an episode
    batch: int = 1  # B: episodes per local step
    lam: float = 0.05  # temperature of the entropy regularisation
    q_eta: float = 0.1  # step size of Q-learning
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


def build(config: Config) -> dict[str, Arm]:
    if config.clients < 2:
        raise RecipeError(f"clients={config.clients}: a federation of two kinds needs at least 2; try --set clients=20")
    federation = Federation(finite.environment(7, 4, config.gamma), federation_mdps(config))
    eta, steps = config.eta, config.local_steps
    sampling: dict[str, Any] = {"horizon": config.horizon, "batch": config.batch}

    def arm(method: Method) -> Arm:
        return Arm(method, federation, config.rounds, fused(config.over), eval_every=2)

    samples = config.horizon * config.batch
    return {
        OWN: arm(alone(gradient_learner(reinforce(**sampling), eta=eta, local_steps=steps))),
        PLAIN: arm(fed_q_learning(eta=config.q_eta, local_steps=steps, samples=samples)),
        POLICIES: arm(pavg(eta=eta, local_steps=steps, **sampling)),
        AWARE: arm(rs_fedpg(eta=eta, local_steps=steps, lam=config.lam, **sampling)),
    }


def federation_mdps(config: Config) -> finite.MDP:
    draw = seven_state.synthetic()
    return jax.vmap(lambda i: draw(of_seed(0), i))(jnp.arange(config.clients))


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return [
        _above(arms, AWARE, OWN, "federating beats going alone"),
        _above(arms, AWARE, PLAIN, "a heterogeneity-aware method beats plain averaging of Q tables"),
    ]


def _above(arms: dict[str, Outcome], better: str, worse: str, text: str) -> Claim:
    gap, error = judge.mean_se(arms[better].final() - arms[worse].final())
    return Claim(f"{text}: {better} above {worse} by 3 SE", judge.sign(gap, error), {"gap": gap, "se": error})


@cache
def best(config: Config) -> dict[str, float]:
    """What the best common policies earn."""
    federation, gamma = federation_mdps(config), config.gamma
    return {
        "best stochastic common policy": float(best_stationary(federation, gamma, starts=8).value),
        "best deterministic common policy": float(best_deterministic(federation, gamma).value),
    }


def words(config: Config, arms: dict[str, Outcome], claims: list[Claim]) -> str:
    ends = {name: f"{outcome.final().mean():.1f}" for name, outcome in arms.items()}
    stochastic, deterministic = best(config).values()
    verbs = {judge.HOLDS: "beats", judge.FAILS: "does not beat", judge.UNDECIDED: "cannot be told apart from"}
    over_own, over_plain = (verbs[claim.verdict] for claim in claims)
    return (
        f"In words: {config.clients} clients of two kinds need opposite actions and share one policy. RS-FedPG, federated, "
        f"ends at {ends[AWARE]}; it {over_own} going alone ({ends[OWN]}), where one noisy episode per step misleads each "
        f"client, and it {over_plain} averaging Q tables ({ends[PLAIN]}). A deterministic common policy earns at most "
        f"{deterministic:.1f}, because it shuts one kind out; a stochastic one up to {stochastic:.1f}. Averaging policies, "
        f"PAvg, ends at {ends[POLICIES]}."
    )


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Learning curves between the values of the best deterministic and the best stochastic common policy."""
    rows = {name: outcome.rows for name, outcome in arms.items()}
    title = headline(claims(config, arms))
    return [curves.draw(rows, folder / "return.png", title=title, levels=best(config))]


RECIPE = Recipe(
    **facts("quickstart"),
    seeds=8,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    words=words,
    claim_texts=(
        "federating beats going alone: RS-FedPG ends above training alone",
        "a heterogeneity-aware method beats plain averaging of Q tables: RS-FedPG ends above QAvg",
    ),
)
