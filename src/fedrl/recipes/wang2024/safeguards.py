"""FedSVRPG-M and FedHAPG-M with safeguards on CartPole, against PAvg that is clipped alike.

As the paper writes them, both collapse here at every beta below 1 (Figure 1): importance weights of whole episodes vanish.
Weights of at most one and directions of bounded norm keep them alive. Whether they then beat PAvg is asked at the step that
suits PAvg and at others, since clipping alone might be what helps.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.algorithms.momentum_anchor import theorem_batch
from fedrl.engines.fused import fused
from fedrl.evaluation import sampled_return
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.federations.federation import Federation, Method
from fedrl.plots import style
from fedrl.policies.mlp import mlp
from fedrl.recipes import facts
from fedrl.recipes.wang2024 import _deep as deep
from fedrl.recipes.wang2024 import _drift
from fedrl.recipes.wang2024._deep import BASELINE, CART_POLE, METHODS, SVRPG
from fedrl.recipes.wang2024._drift import Kind, every_above, gap, label, some_above

CLIPPED, WRITTEN = "PAvg, clipped", f"{SVRPG} as written"


@dataclass(frozen=True)
class Config:
    etas: tuple[float, ...] = (1e-4, 3e-4, 1e-3)  # local step sizes; each arm at each
    betas: tuple[float, ...] = (0.2, 0.5)  # of FedSVRPG-M
    hessian_betas: tuple[float, ...] = (0.5,)  # of FedHAPG-M
    weight_limit: float = 1.0  # c: importance weights are truncated here
    clip: float = 300.0  # directions are not longer
    rounds: int = 100  # R: rounds of communication
    clients: int = 5  # N: how many learn together
    local_steps: int = 10  # K: steps between two rounds
    batch: int = 1  # episodes per local step
    horizon: int = 100  # H: steps of an episode
    spread: float = 0.1  # clients' initial states range over the usual widths times 1 ± spread
    episodes: int = 20  # per client in a measurement
    eval_every: int = 5  # rounds between measurements
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


def momentum(config: Config) -> list[Kind]:
    return _drift.momentum(config.betas, config.hessian_betas)


def arm_name(name: str, eta: float) -> str:
    return f"{name}, eta = {eta:g}"


def build(config: Config) -> dict[str, Arm]:
    """At each step size PAvg, clipped PAvg, FedSVRPG-M as written at its first beta, and momentum with safeguards."""
    guarded = {"weight_limit": config.weight_limit, "clip": config.clip}
    arms: dict[str, Arm] = {}
    for eta in config.etas:
        methods = {
            BASELINE: _method(config, eta, Kind(SVRPG)),
            CLIPPED: _method(config, eta, Kind(SVRPG), clip=config.clip),
            WRITTEN: _method(config, eta, Kind(SVRPG, config.betas[0])),
        } | {label(kind): _method(config, eta, kind, **guarded) for kind in momentum(config)}
        arms |= {arm_name(name, eta): _arm(config, method) for name, method in methods.items()}
    return arms


def _arm(config: Config, method: Method) -> Arm:
    environment = CART_POLE.make(CART_POLE.gamma, config.horizon)
    federation = Federation(environment, CART_POLE.env_params(config.spread), clients=config.clients)
    evaluation = sampled_return(config.episodes)
    return Arm(method, federation, config.rounds, fused(config.over), evaluation, config.eval_every)


def _method(config: Config, eta: float, kind: Kind, **guarded: Any) -> Method:
    """FedSVRPG-M with beta = 1 is PAvg."""
    first = theorem_batch(local_steps=config.local_steps, rounds=config.rounds, beta=kind.beta)
    return METHODS[kind.name](
        beta=kind.beta, eta=eta, local_steps=config.local_steps, horizon=config.horizon, batch=config.batch,
        first_batch=0 if kind.beta == 1.0 else first, policy=mlp(CART_POLE.hidden, CART_POLE.hidden), **guarded,
    )  # fmt: skip


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """Compared seed by seed; "best" is the best of these very seeds at its own step, which favours neither."""
    found = []
    for when, of in deep.WHEN.items():
        values = {name: of(outcome) for name, outcome in arms.items()}
        found += [_above(config, values, eta, when) for eta in config.etas]
        found += [_survives(config, values, when), _best(config, values, when)]
    return found


def _above(config: Config, values: dict[str, np.ndarray], eta: float, when: str) -> Claim:
    plain = values[arm_name(CLIPPED, eta)]
    gaps = {name: gap(values[arm_name(name, eta)], plain) for name in map(label, momentum(config))}
    return some_above(f"at eta = {eta:g} some momentum with safeguards is above {CLIPPED}, {when}, by 3 SE", gaps)


def _survives(config: Config, values: dict[str, np.ndarray], when: str) -> Claim:
    """The same beta with and without safeguards, at every step size."""
    name = label(momentum(config)[0])
    gaps = {f"{eta:g}": gap(values[arm_name(name, eta)], values[arm_name(WRITTEN, eta)]) for eta in config.etas}
    return every_above(f"{name} with safeguards is above {WRITTEN} at every eta {when}, by 3 SE", gaps)


def _best(config: Config, values: dict[str, np.ndarray], when: str) -> Claim:
    plain = [arm_name(name, eta) for name in (BASELINE, CLIPPED) for eta in config.etas]
    guarded = [arm_name(label(kind), eta) for kind in momentum(config) for eta in config.etas]
    highest = [max(names, key=lambda name: values[name].mean()) for names in (guarded, plain)]
    mean, error = gap(*(values[name] for name in highest))
    text = f"the best momentum with safeguards is above the best PAvg, each at its own eta, {when}, by 3 SE"
    return Claim(text, judge.sign(mean, error), {"momentum": highest[0], "PAvg": highest[1], "gap": mean, "se": error})


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """One panel per step size; bands of one standard deviation over seeds."""
    count = len(config.etas)
    figure, axes = style.subplots(1, count, figsize=(5 * count, 4.4), sharey=True, squeeze=False)
    names = (BASELINE, CLIPPED, WRITTEN, *map(label, momentum(config)))
    for panel, eta in zip(axes[0], config.etas, strict=True):
        deep.lines(panel, {name: arms[arm_name(name, eta)] for name in names})
        panel.set(title=f"eta = {eta:g}", xlabel="round")
    axes[0, 0].set_ylabel(deep.RETURN)
    style.legend_below(figure, axes[0, 0], columns=3)
    title = (
        f"CartPole, weights of at most {config.weight_limit:g}, norms of at most {config.clip:g}, batch {config.batch}"
    )
    return [style.save(figure, folder / "safeguards.png", title)]


RECIPE = Recipe(
    **facts("wang2024/safeguards"),
    seeds=16,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_seeds=32,
    claim_texts=(
        "at each eta some momentum with safeguards is above equally clipped PAvg, over all rounds and at the end",
        "FedSVRPG-M with safeguards is above FedSVRPG-M as written, at every eta",
        "the best momentum with safeguards is above the best PAvg, each at its own eta",
    ),
)
