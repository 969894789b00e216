"""Theorem E.12 as an experiment: RS-FedPG at a fixed step, with growing federations and with growing heterogeneity.

Every seed has its own worlds, the same in all arms. The controls change one thing each: the step, who has the episodes,
the length of a local step, and whether gradients are sampled at all.
"""

from dataclasses import dataclass
from typing import NamedTuple

from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.fedpg import rs_fedpg
from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite
from fedrl.exact_objective import exact_objective
from fedrl.experiments.recipe import Arm, RecipeError
from fedrl.federations.federation import Federation, Method
from fedrl.learners.exact_gradient import exact_gradient
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.recipes.labbi2025._family import SYNTHETIC

POOLED = "M=1 with all the episodes"
ONE_STEP = "one long step instead of H"
NOISELESS = "exact gradients of T steps"


@dataclass(frozen=True)
class Settings:
    clients: tuple[int, ...] = (1, 4, 16)  # M, ascending, from 1 on
    epsilons: tuple[float, ...] = (0.1, 0.4)  # shares of the individual kernels, ascending; 0 in the other arms
    rounds: int = 2000  # R: rounds of communication
    exact_rounds: int = 2000  # rounds of the arms without noise: cheap, and the slow worlds need them
    eval_every: int = 20  # rounds between measurements; of the arms without noise as many measurements
    eta: float = 0.02  # step size, the same for all M
    local_steps: int = 5  # H: steps between two rounds
    horizon: int = 60  # T: steps of an episode
    batch: int = 1  # B: episodes per local step
    gamma: float = 0.9  # discount
    lam: float = 0.3  # weight of the entropy
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


class Steps(NamedTuple):
    """The local steps of a round."""

    eta: float
    local_steps: int
    batch: int


def build(config: Settings) -> dict[str, Arm]:
    if not (_rise(config.clients) and config.clients[0] == 1 and _rise(config.epsilons) and config.epsilons[0] > 0.0):
        raise RecipeError(
            "clients must rise from 1 on, such as (1, 4, 16), and epsilons from above 0, such as (0.1, 0.4); got "
            f"{config.clients} and {config.epsilons}"
        )
    most, H = config.clients[-1], config.local_steps
    steps = Steps(config.eta, H, config.batch)
    at_once = Steps(config.eta * H, 1, config.batch * H)
    arms = {federation(M): _sampled(config, steps, M) for M in config.clients}
    arms |= {proportional(M): _sampled(config, steps._replace(eta=steps.eta * M), M) for M in config.clients[1:-1]}
    arms[POOLED] = _sampled(config, steps._replace(batch=steps.batch * most), 1)
    arms[ONE_STEP] = _sampled(config, at_once, most)
    arms[NOISELESS] = _exact(config, steps, 1, horizon=config.horizon)
    for epsilon in config.epsilons:
        arms[exact(epsilon)] = _exact(config, steps, most, epsilon)
        arms[exact_one_step(epsilon)] = _exact(config, at_once, most, epsilon)
        arms[sampled(epsilon)] = _sampled(config, steps, most, epsilon)
    return arms


def _rise(places: tuple[float, ...]) -> bool:
    return len(places) > 1 and list(places) == sorted(set(places))


def federation(clients: int) -> str:
    return f"M={clients}"


def proportional(clients: int) -> str:
    return f"M={clients} with a step times {clients}"


def sampled(epsilon: float) -> str:
    return f"epsilon={epsilon:g}"


def exact(epsilon: float) -> str:
    return f"epsilon={epsilon:g} exact gradients"


def exact_one_step(epsilon: float) -> str:
    return f"epsilon={epsilon:g} exact gradients, one long step"


def _sampled(config: Settings, steps: Steps, clients: int, epsilon: float = 0.0) -> Arm:
    eta, local_steps, batch = steps
    method = rs_fedpg(eta=eta, local_steps=local_steps, horizon=config.horizon, batch=batch, lam=config.lam)
    return _arm(config, method, steps, clients, epsilon, config.rounds)


def _exact(config: Settings, steps: Steps, clients: int, epsilon: float = 0.0, horizon: int | None = None) -> Arm:
    """The same without noise, and unless `horizon` is given without truncation."""
    direction = exact_gradient(lam=config.lam, horizon=horizon)
    method = fedavg(gradient_learner(direction, eta=steps.eta, local_steps=steps.local_steps))
    return _arm(config, method, steps, clients, epsilon, config.exact_rounds)


def _arm(config: Settings, method: Method, steps: Steps, clients: int, epsilon: float, rounds: int) -> Arm:
    environment = finite.environment(SYNTHETIC.states, SYNTHETIC.actions, config.gamma)
    worlds = Federation(environment, SYNTHETIC.env_params(epsilon, False), clients=clients)
    evaluation = exact_objective(config.lam, eta=steps.eta, local_steps=steps.local_steps, gap=True)
    every = max(1, config.eval_every * rounds // config.rounds)
    return Arm(method, worlds, rounds, fused(config.over), evaluation, every)
