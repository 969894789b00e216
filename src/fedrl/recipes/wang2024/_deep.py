"""Shared by the deep half of `wang2024` (§7, App. E.2): three tasks, the two methods, and PAvg beside them.

Paper and published code differ (docs/reproductions/wang2024.md). Here the paper's algorithms run: constant eta, momentum
across rounds, plain return-to-go without a baseline. What the paper does not say (horizon, discount, how much the clients'
starts differ) is the published code's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jax import Array
from matplotlib.axes import Axes

from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedhapg_m import fedhapg_m
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.algorithms.momentum_anchor import theorem_batch
from fedrl.engines.engine import Engine
from fedrl.environments.control import cart_pole
from fedrl.environments.protocol import Environment, Host
from fedrl.evaluation import sampled_return
from fedrl.experiments.recipe import Arm, Outcome, RecipeError
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.plots import style
from fedrl.policies.mlp import mlp
from fedrl.records import log

SVRPG, HAPG, BASELINE = "FedSVRPG-M", "FedHAPG-M", "PAvg"
METHODS = {SVRPG: fedsvrpg_m, HAPG: fedhapg_m}


DrawParams = Callable[[Key, int | Array], Any]  # (key, client_id) -> environment parameters


class Task(NamedTuple):
    name: str
    gamma: float
    horizon: int
    hidden: int  # units in each of the two tanh layers
    make: Callable[[float, int], Environment | Host]  # (gamma, horizon)
    env_params: Callable[[float], DrawParams]  # (spread) -> initial states range over the usual widths times 1 ± spread


def _half_cheetah(gamma: float, horizon: int) -> Host:
    from fedrl.environments.control.mujoco import half_cheetah

    return half_cheetah(gamma, horizon)


def _walker2d(gamma: float, horizon: int) -> Host:
    from fedrl.environments.control.mujoco import walker2d

    return walker2d(gamma, horizon)


def _cheetah_params(spread: float) -> DrawParams:
    from fedrl.environments.control.mujoco import perturbed_starts
    from fedrl.environments.control.mujoco_tasks import HALF_CHEETAH

    return perturbed_starts(HALF_CHEETAH, spread=spread * HALF_CHEETAH.noise)


def _walker_params(spread: float) -> DrawParams:
    from fedrl.environments.control.mujoco import perturbed_starts
    from fedrl.environments.control.mujoco_tasks import WALKER2D

    return perturbed_starts(WALKER2D, spread=spread * WALKER2D.noise)


def _cart_params(spread: float) -> DrawParams:
    return cart_pole.perturbed_starts(0.05, 0.05 * spread)


CART_POLE = Task("CartPole", 0.995, 100, 8, cart_pole.environment, _cart_params)
CHEETAH = Task("HalfCheetah", 0.999, 500, 32, _half_cheetah, _cheetah_params)
WALKER = Task("Walker", 0.999, 500, 32, _walker2d, _walker_params)


@dataclass(frozen=True)
class Settings:
    """How every arm of a recipe is trained and measured."""

    rounds: int = 100  # R: rounds of communication; not published
    eta: float = 3e-4  # local step size of all arms, chosen for PAvg; E.2's 0.75 is of normalised and clipped steps
    server_step: float = 1.0  # lambda / (eta K); 1 averages the clients' parameters, E.2 has 0.08
    local_steps: int = 10  # K: steps between two rounds
    batch: int = 1  # episodes per local step: the paper's 1; the published code has 20 to 100
    horizon: int = 100  # H: steps of an episode
    first: str = "theorem"  # u_0: "theorem" (Theorem 6.4's batch) or "zero"; not published
    corrected: bool = True  # False: FedSVRPG-M without -w g(theta_{r-1}) of Eq. (4); not the paper's method
    spread: float = 0.1  # clients' initial states range over the usual widths times 1 ± spread; at most 1
    episodes: int = 20  # per client in a measurement
    eval_every: int = 5  # rounds between measurements


def arm(task: Task, config: Settings, clients: int, method: str, beta: float, engine: Engine) -> Arm:
    """`method` with this beta, or PAvg, which has none."""
    if config.first not in ("theorem", "zero"):
        raise RecipeError(f"first={config.first!r}: choose theorem or zero")
    if not 0.0 <= config.spread <= 1.0:
        raise RecipeError(f"spread={config.spread}: expected a share of the usual range, from 0 to 1; published: 0.1")
    federation = Federation(task.make(task.gamma, config.horizon), task.env_params(config.spread), clients=clients)
    evaluation = sampled_return(config.episodes)
    return Arm(_method(task, config, method, beta), federation, config.rounds, engine, evaluation, config.eval_every)


def _method(task: Task, config: Settings, method: str, beta: float) -> Method:
    common: dict[str, Any] = {
        "eta": config.eta,
        "local_steps": config.local_steps,
        "horizon": config.horizon,
        "batch": config.batch,
        "server_step": config.server_step,
        "policy": mlp(task.hidden, task.hidden),
    }
    if method == BASELINE:
        return pavg(**common)
    if method == SVRPG:
        common["corrected"] = config.corrected
    batch = theorem_batch(local_steps=config.local_steps, rounds=config.rounds, beta=beta)
    return METHODS[method](beta=beta, first_batch=batch if config.first == "theorem" else 0, **common)


def curve(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Measured rounds [n] and the mean return over clients [n, seeds]."""
    return log.columns(outcome.rows, "return_by_seed")


def learning(outcome: Outcome) -> np.ndarray:
    """[seeds] the return averaged over all measured rounds but round 0, in which nothing has been learnt."""
    return np.asarray(curve(outcome)[1][1:].mean(axis=0))


WHEN: dict[str, Callable[[Outcome], np.ndarray]] = {"over all rounds": learning, "at the end": Outcome.final}
RETURN = "return (band: ± 1 s.d. over seeds)"


def lines(panel: Axes, outcomes: dict[str, Outcome]) -> None:
    """Learning curves in one panel."""
    for index, (name, outcome) in enumerate(outcomes.items()):
        rounds, returns = curve(outcome)
        look, mean, spread = style.look(index), returns.mean(axis=1), returns.std(axis=1)
        panel.plot(rounds, mean, label=name, linewidth=1.6, **look)
        panel.fill_between(rounds, mean - spread, mean + spread, color=look["color"], alpha=0.13, linewidth=0)
    quiet(panel)


def quiet(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.set_axisbelow(True)
