"""Figures 1a, 7a, 7b, 7c: the three FedPG variants with growing federations, step size proportional to their size.

Federations of different size are different problems, so they are compared by the share of what can be learnt,
(J - J of the uniform policy) / (J of the best deterministic policy - J of the uniform policy), both ends exact. At
epsilon = 0 a deterministic policy is the best of all, and at 0.3 the best stationary one found is less than 0.01 % of J
better.
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedrl.engines.fused import fused
from fedrl.environments.tabular import solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.evaluation import exact_return
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome
from fedrl.federations.federation import Federation
from fedrl.recipes.labbi2025 import _family as family
from fedrl.recipes.labbi2025._family import FEDPG, Task
from fedrl.theory import common_policies

ROUGHLY = 2.0  # a speed-up is "roughly" proportional to M if it is within this factor of it


@dataclass(frozen=True)
class Settings:
    clients: tuple[int, ...] = (2, 10)  # M, ascending; one curve each
    epsilon: float = 0.3  # share of the individual kernels
    rounds: int = 300  # R: rounds of communication
    eval_every: int = 3  # rounds between measurements
    eta: float = 0.005  # a federation of M clients takes steps of eta * M
    local_steps: int = 5  # H: steps between two rounds
    horizon: int = 20  # T: steps of an episode
    batch: int = 20  # B: episodes per local step
    lam: float = 0.05  # weight of the entropy in RS- and b-RS-FedPG
    world_seed: int = 0  # of the MDPs, which are the same for all seeds of a run
    conventions: str = "paper"  # or "published": gamma 0.99, two kinds of MDPs, corner start, b-RS without projection
    control: bool = False  # also the smallest federation with the step of the largest
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


PAPER_SETTINGS = {"clients": (2, 10, 50), "rounds": 2000, "eval_every": 5}


class Ends(NamedTuple):
    """The values at the start and at the end of learning."""

    uniform: float
    best: float

    def share(self, returns: np.ndarray) -> np.ndarray:
        return (returns - self.uniform) / (self.best - self.uniform)


def build(config: Settings, task: Task) -> dict[str, Arm]:
    smallest, largest = min(config.clients), max(config.clients)
    arms = {
        arm_name(method, count): _arm(config, task, method, count, count)
        for method in FEDPG
        for count in config.clients
    }
    if config.control:
        arms |= {
            control_name(method, config): _arm(config, task, method, smallest, step_of=largest) for method in FEDPG
        }
    return arms


def arm_name(method: str, count: int) -> str:
    return f"{method} M={count}"


def control_name(method: str, config: Settings) -> str:
    return f"{method} M={min(config.clients)} with the step of M={max(config.clients)}"


def _arm(config: Settings, task: Task, method: str, count: int, step_of: int) -> Arm:
    published = family.is_published(config.conventions)
    gamma = task.discount(published)
    env_params = _mdps(task, config.epsilon, published, config.world_seed, count)
    methods = family.fedpg(
        eta=config.eta * step_of,
        local_steps=config.local_steps,
        horizon=config.horizon,
        batch=config.batch,
        lam=config.lam,
        gamma=gamma,
        published=published,
    )
    return Arm(
        methods[method],
        Federation(family.environment(env_params, gamma), env_params),
        config.rounds,
        fused(config.over),
        exact_return(start=jnp.full(task.states, 1.0 / task.states)),
        config.eval_every,
    )


@functools.lru_cache
def _mdps(task: Task, epsilon: float, published: bool, world_seed: int, count: int) -> MDP:
    return family.stack(task.env_params(epsilon, published), count, world_seed)


def ends(config: Settings, task: Task, count: int) -> Ends:
    return _ends(task, config.epsilon, family.is_published(config.conventions), config.world_seed, count)


@functools.lru_cache
def _ends(task: Task, epsilon: float, published: bool, world_seed: int, count: int) -> Ends:
    env_params = family.from_anywhere(_mdps(task, epsilon, published, world_seed, count))
    gamma = task.discount(published)
    uniform = jnp.full((task.states, task.actions), 1.0 / task.actions)
    best = common_policies.best_deterministic(env_params, gamma)
    return Ends(float(solvers.average_value(env_params, uniform, gamma)), float(best.value))


def claims(config: Settings, arms: dict[str, Outcome], task: Task) -> list[Claim]:
    """For each variant: larger is higher, early on and at the end; the speed-up; that it is not the step alone."""
    found = []
    for method in FEDPG:
        shares: dict[int, np.ndarray] = {}
        rounds = np.zeros(0)
        for count in config.clients:
            rounds, returns = arms[arm_name(method, count)].curve()
            shares[count] = ends(config, task, count).share(returns)
        found += [_higher(method, rounds, shares, at) for at in (config.rounds // 10, config.rounds)]
        found.append(_speed_up(method, rounds, shares))
        if config.control:
            _, returns = arms[control_name(method, config)].curve()
            held = ends(config, task, min(config.clients)).share(returns)
            found.append(_averaging(method, rounds, shares, held))
    return found


def _higher(method: str, rounds: np.ndarray, shares: dict[int, np.ndarray], at: int) -> Claim:
    row = int(np.argmin(np.abs(rounds - at)))
    numbers, verdicts = {}, []
    for count, share in shares.items():
        numbers[f"share M={count}"], numbers[f"share M={count} se"] = judge.mean_se(share[row])
    for less, more in zip(list(shares)[:-1], list(shares)[1:], strict=True):
        gap, error = judge.difference(shares[more][row], shares[less][row])
        numbers[f"M={more} minus M={less}"], numbers[f"M={more} minus M={less} se"] = gap, error
        verdicts.append(judge.sign(gap, error))
    text = f"{method}: after {rounds[row]} rounds, a larger federation has learnt a larger share of what can be learnt"
    return Claim(text, judge.every(verdicts), numbers)


def _speed_up(method: str, rounds: np.ndarray, shares: dict[int, np.ndarray]) -> Claim:
    first, *larger = shares
    level = float(shares[first][-1].mean())
    base, base_error = judge.mean_se(_reached(rounds, shares[first], level))
    numbers, verdicts = {"level": level, f"rounds M={first}": base, f"rounds M={first} se": base_error}, []
    for count in larger:
        taken, error = judge.mean_se(_reached(rounds, shares[count], level))
        speed = base / taken
        speed_error = speed * float(np.hypot(base_error / base, error / taken))
        numbers |= {f"rounds M={count}": taken, f"rounds M={count} se": error}
        numbers |= {f"speed-up M={count}": speed, f"speed-up M={count} se": speed_error}
        ideal = count / first
        verdicts.append(judge.inside(speed, speed_error, ideal / ROUGHLY, ideal * ROUGHLY))
    text = f"{method}: the rounds to the final level of M={first} shrink like 1/M, within a factor of {ROUGHLY:g}"
    return Claim(text, judge.every(verdicts), numbers)


def _reached(rounds: np.ndarray, shares: np.ndarray, level: float) -> np.ndarray:
    """[seeds] the round in which each seed first is at `level`, interpolated; the last round if it never is."""

    def one(share: np.ndarray) -> float:
        at = int(np.argmax(share >= level))
        if share[at] < level:
            return float(rounds[-1])
        if at == 0:
            return max(float(rounds[0]), 1.0)
        part = (level - share[at - 1]) / (share[at] - share[at - 1])
        return float(rounds[at - 1] + part * (rounds[at] - rounds[at - 1]))

    return np.array([one(share) for share in shares.T])


def _averaging(method: str, rounds: np.ndarray, shares: dict[int, np.ndarray], held: np.ndarray) -> Claim:
    """Our control, not the paper's: how much of the speed-up is the longer step, which a small federation may take too?"""
    few, many = min(shares), max(shares)
    gap, error = judge.difference(shares[many][-1], held[-1])
    numbers = {"difference": gap, "difference se": error}
    level = float(shares[few][-1].mean())
    for count, share in ((many, shares[many]), (few, held)):
        numbers[f"share M={count}"], numbers[f"share M={count} se"] = judge.mean_se(share[-1])
        numbers[f"rounds M={count}"], numbers[f"rounds M={count} se"] = judge.mean_se(_reached(rounds, share, level))
    text = f"{method}: not the step alone: M={few} with the step of M={many} ends below M={many} (our control)"
    return Claim(text, judge.sign(gap, error), numbers)
