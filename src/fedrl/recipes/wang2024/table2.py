"""Table 2 of Wang et al. 2024: FedSVRPG-M on random MDPs, momentum beta against heterogeneity kappa.

The paper gives N = 20, five states and actions, gamma 0.9, K = 32, eta = 0.05, 16,000 seeds. It does not give rounds,
horizon, global step, first logits or u_0; the defaults here are ours, and `docs/reproductions.md` sweeps them.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from jax import Array

from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.algorithms.momentum_anchor import theorem_batch
from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite, random_mdp
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe, RecipeError
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.plots import style
from fedrl.policies.softmax import softmax_table
from fedrl.recipes import facts
from fedrl.types import BuildPolicy

PRINTED = {  # beta: value at kappa 0, .2, .4, .6, .8, 1
    0.1: (8.013, 7.957, 7.968, 7.961, 7.964, 7.981),
    0.2: (7.876, 7.877, 7.851, 7.837, 7.841, 7.824),
    0.5: (7.561, 7.208, 7.529, 7.525, 7.536, 7.525),
    0.8: (7.211, 7.203, 7.201, 7.192, 7.193, 7.184),
    1.0: (6.965, 6.951, 6.955, 6.936, 6.940, 6.937),
}
GENERATORS = {"dense": random_mdp.dense, "orthogonal": random_mdp.orthogonal}


@dataclass(frozen=True)
class Config:
    betas: tuple[float, ...] = (0.1, 0.5, 1.0)  # momentum coefficients; 1 is PAvg
    kappas: tuple[float, ...] = (0.0, 0.6, 1.0)  # heterogeneity of the kernels
    clients: int = 20  # N: how many learn together
    local_steps: int = 32  # K: steps between two rounds
    eta: float = 0.05  # local step size
    eta_power: float = 0.0  # eta is multiplied by beta^eta_power: one step size per beta, as Theorem 6.4 allows
    server_step: float = 1.0  # step of the server, lambda / (eta K); not published
    server_power: float = 0.0  # the server step is multiplied by beta^server_power: one lambda per beta
    rounds: int = 16  # R: rounds of communication; not published
    horizon: int = 50  # H: steps of an episode; not published
    first: str = "theorem"  # u_0: "theorem" (Theorem 6.4's batch) or "zero"; not published
    corrected: bool = True  # False: momentum without the term -w g(theta_{r-1}) of Eq. (4); not the paper's method
    logits: str = "zero"  # first logits: "zero" or "uniform" on [0, 1]; not published
    generator: str = "dense"  # "dense" (wang2024 §7) or "orthogonal" (Bernoulli masks, wang2024 E.1)
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


def build(config: Config) -> dict[str, Arm]:
    if config.generator not in GENERATORS or config.first not in ("theorem", "zero"):
        raise RecipeError(
            f"generator={config.generator!r}, first={config.first!r}: choose dense or orthogonal, and theorem or zero"
        )
    return {name(beta, kappa): _arm(config, beta, kappa) for beta in config.betas for kappa in config.kappas}


def name(beta: float, kappa: float) -> str:
    return f"beta={beta:g} kappa={kappa:g}"


def _arm(config: Config, beta: float, kappa: float) -> Arm:
    generator = GENERATORS[config.generator]
    generator(5, 5, kappa)  # raises if kappa is outside [0, 1]

    def draw(key: Key, client_id: Array, share: Array) -> finite.MDP:
        return generator(5, 5, share)(key, client_id)

    federation = Federation(
        finite.environment(5, 5, 0.9),
        draw,
        clients=config.clients,
        settings=(kappa,),
    )
    steps = config.local_steps
    batch = theorem_batch(local_steps=steps, rounds=config.rounds, beta=beta) if config.first == "theorem" else 0
    method = fedsvrpg_m(
        beta=beta,
        eta=config.eta * beta**config.eta_power,
        local_steps=steps,
        horizon=config.horizon,
        server_step=config.server_step * beta**config.server_power,
        first_batch=0 if beta == 1.0 else batch,
        corrected=config.corrected,
        policy=softmax_start(config.logits),
    )
    return Arm(method, federation, config.rounds, fused(config.over), eval_every=max(1, config.rounds // 4))


def softmax_start(logits: str) -> BuildPolicy:
    starts = {"zero": None, "uniform": lambda key, shape: jax.random.uniform(key, shape)}
    if logits not in starts:
        raise RecipeError(f"logits={logits!r}: choose zero or uniform")
    return softmax_table(starts[logits])


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return [*_order_claims(config, arms), _flat_claim(config, arms)]


def _order_claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """For each pair of neighbouring beta: the smaller is above the larger, in every kappa, seed by seed."""
    betas, found = sorted(config.betas), []
    for small, large in itertools.pairwise(betas):
        verdicts, numbers = [], {}
        for kappa in config.kappas:
            gap, error = judge.mean_se(arms[name(small, kappa)].final() - arms[name(large, kappa)].final())
            verdicts.append(judge.sign(gap, error))
            numbers[f"kappa={kappa:g}"] = {"gap": gap, "se": error}
        text = f"beta = {small:g} ends above beta = {large:g} at every kappa by 3 SE"
        found.append(Claim(text, judge.every(verdicts), numbers))
    return found


def _flat_claim(config: Config, arms: dict[str, Outcome]) -> Claim:
    """The paper's rows vary by up to 0.06 over kappa (but for one outlier). Compared seed by seed."""
    beta = min(config.betas)
    final = [arms[name(beta, kappa)].final() for kappa in config.kappas]
    low, high = min(final, key=np.mean), max(final, key=np.mean)
    spread, error = judge.mean_se(high - low)
    numbers = {"spread": spread, "se": error, "means": [float(x.mean()) for x in final]}
    text = f"at beta = {beta:g} the value does not depend on kappa (spread at most 0.06)"
    return Claim(text, judge.inside(spread, error, -np.inf, 0.06), numbers)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Final value against kappa, one line per beta; the paper's printed values dashed."""
    figure, axes = style.axes()
    for index, beta in enumerate(config.betas):
        colour = style.look(index)["color"]
        final = [arms[name(beta, kappa)].final() for kappa in config.kappas]
        mean, error = zip(*map(judge.mean_se, final), strict=True)
        axes.errorbar(config.kappas, mean, error, capsize=3, color=colour, label=f"beta = {beta:g}")
        if beta in PRINTED:
            axes.plot((0, 0.2, 0.4, 0.6, 0.8, 1.0), PRINTED[beta], "--", color=colour, alpha=0.5)
    axes.set(xlabel="heterogeneity kappa", ylabel="discounted return J (bars: ± 1 s.e.)")
    style.legend(axes)
    method = "FedSVRPG-M" if config.corrected else "Momentum without the term -w g(theta_{r-1})"
    return [style.save(figure, folder / "table2.png", f"{method}; dashed: Table 2 as printed")]


RECIPE = Recipe(
    **facts("wang2024/table2"),
    seeds=16,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings={"betas": tuple(PRINTED), "kappas": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)},
    paper_seeds=16_000,
    claim_texts=(
        "a smaller beta ends above the next larger one at every kappa",
        "at the smallest beta the value does not depend on kappa",
    ),
)
