"""Client drift, and what removes it: two clients with opposed rewards whose best compromise is a third action.

One state, three actions, rewards (1, m, 0) and (0, m, 1). A client alone learns its own favourite; the average of two such
policies earns less than the first, uniform one. The best common policy always takes the action in the middle.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite
from fedrl.exact_objective import exact_objective
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.federations.federation import Federation
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.wang2024 import _deep as deep
from fedrl.recipes.wang2024 import _drift
from fedrl.recipes.wang2024._deep import BASELINE, SVRPG
from fedrl.recipes.wang2024._drift import TWO_STEPS, Kind, every_above, gap, label, squared_gradients

GAMMA = 0.5
CLOSE = 0.01  # two step sizes do as well if their end is lower by this share of the best value at most


@dataclass(frozen=True)
class Config(_drift.Settings):
    betas: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05)  # of FedSVRPG-M, descending
    hessian_betas: tuple[float, ...] = (0.1,)  # of FedHAPG-M
    local_steps: int = 32  # K: steps between two rounds
    horizon: int = 1  # H: steps of an episode
    far: tuple[float, ...] = (1.0, 4.0)  # server steps with two step sizes, in units of K; one arm each
    middle: float = 0.6  # m: reward of the third action; the best common one if above 0.5


def build(config: Config) -> dict[str, Arm]:
    federation = Federation(finite.environment(1, 3, GAMMA), env_params(config.middle))
    arms = {}
    for kind in (Kind(BASELINE), *two_steps(config), *momentum(config)):
        method = _drift.method(config, kind, local_steps=config.local_steps, horizon=config.horizon)
        arms[label(kind)] = Arm(
            method, federation, config.rounds, fused(config.over), exact_objective(), config.eval_every
        )
    return arms


def env_params(middle: float) -> finite.MDP:
    reward = jnp.array([[[1.0, middle, 0.0]], [[0.0, middle, 1.0]]])
    return finite.MDP(jnp.ones((2, 1, 3, 1)), reward, jnp.ones((2, 1)))


def momentum(config: Config) -> list[Kind]:
    return _drift.momentum(config.betas, config.hessian_betas)


def two_steps(config: Config) -> list[Kind]:
    return [Kind(TWO_STEPS, far=far) for far in config.far]


def optimum(config: Config) -> float:
    """The largest J of a common policy: of the better action, for ever."""
    return max(config.middle, 0.5) / (1.0 - GAMMA)


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """Compared seed by seed."""
    first = deep.curve(arms[BASELINE])[1][0]
    found = [_above(f"{BASELINE} ends below where it began", first, arms[BASELINE].final())]
    for when, of in deep.WHEN.items():
        for name in map(label, momentum(config)):
            found.append(_above(f"{name} is above {BASELINE} {when}", of(arms[name]), of(arms[BASELINE])))
    found.append(_ordered(config, arms))
    for name in map(label, two_steps(config)):
        found += [_as_well(config, arms, name), _faster(config, arms, name)]
    return [*found, _smaller(config, arms)]


def _above(text: str, above: np.ndarray, below: np.ndarray) -> Claim:
    mean, error = gap(above, below)
    return Claim(f"{text}, by 3 SE", judge.sign(mean, error), {"gap": mean, "se": error})


def _ordered(config: Config, arms: dict[str, Outcome]) -> Claim:
    betas = sorted(config.betas, reverse=True)
    ends = {beta: arms[label(Kind(SVRPG, beta))].final() for beta in betas}
    pairs = {f"{small:g} minus {large:g}": gap(ends[small], ends[large]) for large, small in itertools.pairwise(betas)}
    return every_above(f"{SVRPG}: each smaller beta ends above the next larger one, by 3 SE", pairs)


def _as_well(config: Config, arms: dict[str, Outcome], plain: str) -> Claim:
    """Against the momentum that ended highest on these very seeds, which favours momentum."""
    best = max(map(label, momentum(config)), key=lambda name: arms[name].final().mean())
    mean, error = gap(arms[plain].final(), arms[best].final())
    text = f"{plain}, ends as high as the best momentum, up to {CLOSE:.0%} of the optimum"
    verdict = judge.inside(mean, error, -CLOSE * optimum(config), np.inf)
    return Claim(text, verdict, {"best": best, "gap": mean, "se": error})


def _faster(config: Config, arms: dict[str, Outcome], plain: str) -> Claim:
    learning = {name: deep.learning(arms[name]) for name in (plain, *map(label, momentum(config)))}
    gaps = {name: gap(learning[plain], learning[name]) for name in map(label, momentum(config))}
    return every_above(f"{plain}, is above every momentum over all rounds, by 3 SE", gaps)


def _smaller(config: Config, arms: dict[str, Outcome]) -> Claim:
    """What Theorem 6.4 bounds, at the end."""
    last = {name: squared_gradients(arms[name])[1][-1] for name in arms}
    gaps = {name: gap(last[BASELINE], last[name]) for name in map(label, momentum(config))}
    return every_above(f"||grad J||^2 of every momentum ends below that of {BASELINE}, by 3 SE", gaps)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """J and ||grad J||^2 by round, means over seeds; bands of one standard error of J."""
    figure, (returns, norms) = style.subplots(1, 2, figsize=(10, 4.4))
    for index, (name, outcome) in enumerate(arms.items()):
        look = style.look(index)
        rounds, values = deep.curve(outcome)
        mean, error = values.mean(axis=1), _errors(values)
        returns.plot(rounds, mean, label=name, **look)
        returns.fill_between(rounds, mean - error, mean + error, color=look["color"], alpha=0.2, linewidth=0)
        norms.plot(rounds, squared_gradients(outcome)[1].mean(axis=1), **look)
    returns.axhline(optimum(config), color="grey", linestyle=":", label=f"optimum: {optimum(config):g}")
    returns.set(xlabel="round", ylabel="discounted return J (band: ± 1 s.e.)")
    norms.set(xlabel="round", ylabel="squared norm of grad J", yscale="log")
    deep.quiet(returns)
    deep.quiet(norms)
    style.legend_below(figure, returns, columns=4)
    title = f"Opposed rewards, K = {config.local_steps}, eta = {config.eta:g}, batch {config.batch}"
    return [style.save(figure, folder / "drift.png", title)]


def _errors(values: np.ndarray) -> np.ndarray:
    """Standard error of each row [n, seeds]."""
    return np.array([judge.mean_se(row)[1] for row in values])


RECIPE = Recipe(
    **facts("wang2024/drift"),
    seeds=16,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    claim_texts=(
        "PAvg ends below where it began",
        "each method with momentum is above PAvg, at the end and over all rounds",
        "each smaller beta of FedSVRPG-M ends above the next larger one",
        "PAvg with two step sizes ends as high as the best momentum, and learns faster than each of them",
        "momentum ends with a smaller ||grad J||^2 than PAvg",
    ),
)
