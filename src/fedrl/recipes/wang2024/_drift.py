"""Shared by the recipes about client drift: momentum, PAvg, and PAvg with two step sizes, on MDPs solved exactly."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import trees
from fedrl.algorithms.fedavg import pavg
from fedrl.environments.tabular import solvers
from fedrl.evaluation import exact_return
from fedrl.experiments import judge
from fedrl.experiments.recipe import Claim
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.recipes.wang2024._deep import BASELINE, HAPG, METHODS, SVRPG
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Exchange, Metrics, Server, stepwise

TWO_STEPS = "PAvg, two step sizes"
GRADIENT = "gradient_norm2"


@dataclass(frozen=True)
class Settings:
    eta: float = 0.2  # local step size of all arms; with two step sizes, of the K local steps together
    rounds: int = 96  # R: rounds of communication
    batch: int = 16  # episodes per local step
    first_batch: int = 2000  # B: episodes per client behind u_0
    eval_every: int = 4  # rounds between measurements
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


class Kind(NamedTuple):
    """A method with momentum, PAvg, or PAvg whose clients take K steps of eta / K and whose server takes `far` K.

    Two step sizes are the usual remedy for drift (Karimireddy et al. 2020): clients stay K times closer to theta_r, and with
    `far` = 1 the server moves as it does with momentum, by eta K times the mean direction.
    """

    name: str
    beta: float = 1.0
    far: float = 1.0


def label(kind: Kind) -> str:
    if kind.name in METHODS:
        return f"{kind.name}, beta = {kind.beta:g}"
    return kind.name if kind.far == 1.0 else f"{kind.name}, {kind.far:g} times as far"


def method(config: Settings, kind: Kind, *, local_steps: int, horizon: int) -> Method:
    common: dict[str, Any] = {"local_steps": local_steps, "horizon": horizon, "batch": config.batch}
    if kind.name == BASELINE:
        return pavg(eta=config.eta, **common)
    if kind.name == TWO_STEPS:
        return pavg(eta=config.eta / local_steps, server_step=kind.far * local_steps, **common)
    return METHODS[kind.name](beta=kind.beta, eta=config.eta, first_batch=config.first_batch, **common)


def gap(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """Mean difference seed by seed and its standard error; NaN if no two seeds differ, which decides nothing."""
    mean, error = judge.mean_se(above - below)
    return mean, error if error > 0.0 else float("nan")


def momentum(betas: Iterable[float], hessian_betas: Iterable[float]) -> list[Kind]:
    return [Kind(SVRPG, beta) for beta in betas] + [Kind(HAPG, beta) for beta in hessian_betas]


Gaps = dict[str, tuple[float, float]]  # by name: a difference and its standard error


def some_above(text: str, gaps: Gaps) -> Claim:
    """One that is above settles it; if all are below, it does not hold."""
    signs = [judge.sign(*it) for it in gaps.values()]
    verdict = next((it for it in (judge.HOLDS, judge.UNDECIDED) if it in signs), judge.FAILS)
    return Claim(text, verdict, numbers(gaps))


def every_above(text: str, gaps: Gaps) -> Claim:
    return Claim(text, judge.every(judge.sign(*it) for it in gaps.values()), numbers(gaps))


def numbers(gaps: Gaps) -> dict[str, dict[str, float]]:
    return {name: {"gap": mean, "se": error} for name, (mean, error) in gaps.items()}


def exact_gradient(algorithm: Algorithm, federation: Federation) -> Exchange:
    """`exact_return` that also measures ||grad J(theta)||^2, which the theorems bound, under the name of `GRADIENT`."""
    exchange, policy = exact_return()(algorithm, federation), stepwise(algorithm.policy)
    gamma = federation.environment.gamma

    def start(answer: Tree, client: Client, key: Key) -> tuple[Array, Tree]:
        theta = algorithm.theta_of(answer, client)
        value = exchange.local.start(answer, client, key)
        return value, solvers.gradient(policy, theta, client.env_params, gamma)

    def receive(server: Server, uploads: tuple[Array, Tree], cohort: Cohort, key: Key) -> tuple[Server, Metrics]:
        returns, gradients = uploads
        server, metrics = exchange.receive(server, returns, cohort, key)
        mean = jax.tree.map(lambda x: trees.weighted_sum(cohort.weight, x), gradients)
        return server, metrics | {GRADIENT: trees.squared_norm(mean)}

    local = exchange.local._replace(start=start, possible=lambda local, client: jnp.isfinite(local[0]))
    return exchange._replace(local=local, receive=receive)
