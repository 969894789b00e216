"""Labbi et al. 2025, Theorem 3.1: where kernels differ, each richer class of shared policies can be strictly better."""

import functools
from dataclasses import dataclass
from pathlib import Path

import jax
from jax import Array

from fedrl import keys
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedpg import s_fedpg
from fedrl.engines.fused import fused
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.federations.federation import Federation
from fedrl.policies.softmax import softmax_table
from fedrl.recipes import facts
from fedrl.recipes.labbi2025 import _family as family
from fedrl.recipes.labbi2025 import _figures
from fedrl.recipes.labbi2025._family import FED_Q, FEDPG
from fedrl.theory import counter_examples
from fedrl.theory.counter_examples import GAMMA

S_FEDPG = FEDPG[0]
CLOSE = 0.01  # S-FedPG has reached the best stationary value if it is this share of it away at most
ROUNDING = 1e-4  # an exact inequality is strict if it is wider than this share of the larger side


@dataclass(frozen=True)
class Config:
    rounds: int = 300  # R: rounds of communication
    eval_every: int = 3  # rounds between measurements
    eta: float = 0.001  # step of S-FedPG (0.01 for rewards of 1; here they are 10); Fed-Q-learning's is 0.1
    local_steps: int = 5  # H: steps between two rounds
    horizon: int = 50  # T: steps of an episode
    batch: int = 20  # B: episodes per local step
    spread: float = 2.0  # standard deviation of the first logits; at 0 S-FedPG would start at the optimum, the coin
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


def build(config: Config) -> dict[str, Arm]:
    """Both on the instance of Figure 4 (Lemma B.3)."""
    env_params = counter_examples.lemma_b3()
    federation = Federation(family.environment(env_params, GAMMA), env_params)

    def start(key: keys.Key, shape: tuple[int, ...]) -> Array:
        return config.spread * jax.random.normal(key, shape)

    methods = {
        S_FEDPG: s_fedpg(
            eta=config.eta,
            local_steps=config.local_steps,
            horizon=config.horizon,
            batch=config.batch,
            policy=softmax_table(start),
        ),
        FED_Q: fed_q_learning(eta=0.1, local_steps=config.local_steps, samples=config.horizon * config.batch),
    }
    return {
        name: Arm(method, federation, config.rounds, fused(config.over), eval_every=config.eval_every)
        for name, method in methods.items()
    }


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    deterministic, stationary = _known()
    history, aware = counter_examples.gap_b2(), counter_examples.gap_b1()
    near, near_error = judge.mean_se(stationary - arms[S_FEDPG].final())
    greedy, greedy_error = judge.mean_se(arms[FED_Q].final())
    return [
        _strict("max over deterministic < max over stationary policies (Lemma B.3, exact)", deterministic, stationary),
        _strict("max over stationary < max over history-dependent policies (Lemma B.2, exact)", *map(float, history)),
        _strict("max over history-dependent < max over agent-aware policies (Lemma B.1, exact)", *map(float, aware)),
        Claim(
            f"{S_FEDPG} comes within {CLOSE:.0%} of the best stationary value (Figure 4)",
            judge.inside(near, near_error, -CLOSE * stationary, CLOSE * stationary),
            {"missing": near, "missing se": near_error, "stationary": stationary},
        ),
        Claim(
            f"{FED_Q} ends no higher than the best deterministic policy (Figure 4, exact)",
            judge.HOLDS if arms[FED_Q].final().max() <= deterministic * (1.0 + ROUNDING) else judge.FAILS,
            {"J": greedy, "J se": greedy_error, "deterministic": deterministic},
        ),
    ]


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    deterministic, stationary = _known()
    lines = {"best stationary": stationary, "best deterministic": deterministic}
    return _figures.gate(arms, folder, "The instance of Figure 4 (Lemma B.3)", lines)


@functools.lru_cache
def _known() -> tuple[float, float]:
    """Best deterministic and best stationary value on the instance of Figure 4; by symmetry the latter is a coin's."""
    gap = counter_examples.gap_b3()
    return float(gap.smaller), float(gap.larger)


def _strict(text: str, smaller: float, larger: float) -> Claim:
    verdict = judge.HOLDS if larger - smaller > ROUNDING * abs(larger) else judge.FAILS
    return Claim(text, verdict, {"smaller": smaller, "larger": larger, "difference": larger - smaller})


RECIPE = Recipe(
    **facts("labbi2025/theorem31"),
    seeds=8,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=(
        "the best stationary policy is better than the best deterministic one (Lemma B.3)",
        "the best history-dependent policy is better than the best stationary one (Lemma B.2)",
        "the best agent-aware policy is better than the best history-dependent one (Lemma B.1)",
        "S-FedPG comes within 1% of the best stationary value",
        "Fed-Q-learning ends no higher than the best deterministic policy",
    ),
)
