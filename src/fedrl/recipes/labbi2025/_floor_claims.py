"""What Theorem E.12 says of the floors, as claims.

A floor is the mean of J_r* - J_r over the evaluations of the second half of a run. Floors are compared as logarithms, seed
by seed, since arms share their worlds. The theorem is an upper bound, so the exponents are ours to test: noise alone gives
M^-1, and a price that grows like the square of the difference gives epsilon^2.
"""

import itertools

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Claim, Outcome
from fedrl.recipes.labbi2025 import _floors
from fedrl.recipes.labbi2025._floors import NOISELESS, ONE_STEP, POOLED, Settings
from fedrl.records import log

IN_M = (-1.15, -0.85)  # where the exponent of M must lie
IN_EPSILON = (1.8, 2.2)
NEARLY = 1.25  # floors are nearly the same within this factor
SMALL = 0.05  # a remainder is small below this share of the floor

Floors = dict[str, np.ndarray]  # [seeds] by arm


def floors(arms: dict[str, Outcome]) -> Floors:
    return {name: _floor(outcome) for name, outcome in arms.items()}


def _floor(outcome: Outcome) -> np.ndarray:
    at, gaps = log.columns(outcome.rows, "gap_by_seed")
    return np.asarray(gaps[at > at[-1] / 2].mean(axis=0))


def claims(config: Settings, arms: dict[str, Outcome]) -> list[Claim]:
    found = floors(arms)
    first, last = (_floors.federation(M) for M in (config.clients[0], config.clients[-1]))
    long_steps = [_floors.proportional(M) for M in config.clients[1:-1]]
    pooled = f"{last} ends where one client with all the episodes does, within a factor of {NEARLY:g} (our control)"
    local = f"local steps cost nothing: {last} ends where one step {config.local_steps} times as long takes it"
    held = f"with a step proportional to M the floor stays that of {first}, within a factor of {NEARLY:g} (our control)"
    return [
        _in_m(config, found),
        _small("it is noise: exact gradients of T steps leave less than", found, NOISELESS, last),
        _nearly(pooled, found, [(last, POOLED)]),
        _nearly(local, found, [(last, ONE_STEP)]),
        _nearly(held, found, [(name, first) for name in long_steps]),
        _in_epsilon(config, found),
        _drift(config, found),
        _sum(config, found, last),
    ]


def slope(places: tuple[float, ...], found: list[np.ndarray]) -> np.ndarray:
    """[seeds] the exponent of a power law through the floors at `places`, by least squares on logarithms."""
    return np.asarray(np.polyfit(np.log(places), np.log(np.stack(found)), 1)[0])


def _in_m(config: Settings, found: Floors) -> Claim:
    own = [found[_floors.federation(M)] for M in config.clients]
    text = f"the floor falls like 1/M: its exponent lies in {list(IN_M)}"
    return _exponent(text, config.clients, own, IN_M, "M")


def _in_epsilon(config: Settings, found: Floors) -> Claim:
    own = [found[_floors.exact(epsilon)] for epsilon in config.epsilons]
    text = f"without noise the floor grows like epsilon^2: its exponent lies in {list(IN_EPSILON)}"
    return _exponent(text, config.epsilons, own, IN_EPSILON, "epsilon")


def _exponent(
    text: str, places: tuple[float, ...], own: list[np.ndarray], band: tuple[float, float], axis: str
) -> Claim:
    numbers: dict[str, float] = {}
    for place, values in zip(places, own, strict=True):
        numbers[f"floor {axis}={place:g}"], numbers[f"floor {axis}={place:g} se"] = judge.mean_se(values)
    numbers["exponent"], numbers["exponent se"] = judge.mean_se(slope(places, own))
    for (low, below), (high, above) in itertools.pairwise(zip(places, own, strict=True)):
        name = f"exponent {low:g} to {high:g}"
        numbers[name], numbers[f"{name} se"] = judge.mean_se(slope((low, high), [below, above]))
    return Claim(text, judge.inside(numbers["exponent"], numbers["exponent se"], *band), numbers)


def _nearly(text: str, found: Floors, pairs: list[tuple[str, str]]) -> Claim:
    verdicts: list[str] = []
    numbers: dict[str, float] = {}
    for name, other in pairs:
        gap, error = judge.mean_se(np.log(found[name]) - np.log(found[other]))
        verdicts.append(judge.inside(gap, error, -np.log(NEARLY), np.log(NEARLY)))
        for one in (name, other):
            numbers[f"floor {one}"], numbers[f"floor {one} se"] = judge.mean_se(found[one])
        numbers[f"{name}: ratio"], numbers[f"{name}: log ratio se"] = float(np.exp(gap)), error
    return Claim(text, judge.every(verdicts), numbers)


def _small(text: str, found: Floors, rest: str, whole: str) -> Claim:
    """Is the remainder `rest`, which rounding may leave below zero, a small share of the floor `whole`?"""
    share, error = judge.mean_se(found[rest] / found[whole])
    numbers = {"share": share, "share se": error}
    return Claim(f"{text} {SMALL:.0%} of the floor of {whole}", judge.inside(share, error, -SMALL, SMALL), numbers)


def _drift(config: Settings, found: Floors) -> Claim:
    """Local steps on different worlds: Lemma 4.1 charges for them, and one step has no drift."""
    verdicts: list[str] = []
    numbers: dict[str, float] = {}
    for epsilon in config.epsilons:
        steps, one = found[_floors.exact(epsilon)], found[_floors.exact_one_step(epsilon)]
        share, error = judge.mean_se((steps - one) / one)
        numbers |= {f"share epsilon={epsilon:g}": share, f"share epsilon={epsilon:g} se": error}
        verdicts.append(judge.inside(share, error, -SMALL, SMALL))
    text = f"it is the price of sharing a policy: drift changes the floor by less than {SMALL:.0%}"
    return Claim(text, judge.every(verdicts), numbers)


def _sum(config: Settings, found: Floors, last: str) -> Claim:
    verdicts: list[str] = []
    numbers: dict[str, float] = {}
    for epsilon in config.epsilons:
        whole, parts = found[_floors.sampled(epsilon)], found[last] + found[_floors.exact(epsilon)]
        ratio, error = judge.mean_se(np.log(whole) - np.log(parts))
        verdicts.append(judge.inside(ratio, error, -np.log(NEARLY), np.log(NEARLY)))
        name = f"epsilon={epsilon:g}"
        numbers[f"floor {name}"], numbers[f"floor {name} se"] = judge.mean_se(whole)
        numbers |= {f"ratio {name}": float(np.exp(ratio)), f"log ratio {name} se": error}
    text = f"noise and heterogeneity add up: with {last} the floor is their sum, within a factor of {NEARLY:g}"
    return Claim(text, judge.every(verdicts), numbers)
