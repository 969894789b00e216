"""What an environment is: pure functions of a world (its parameters), so heterogeneity is one stacked array.

All randomness of an episode is drawn in bulk by `noise` before it starts; stepping is then deterministic.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array


class Discrete(NamedTuple):
    n: int


class Step(NamedTuple):
    state: Any
    reward: Array
    done: Array


class Environment(NamedTuple):
    prepare: Callable  # (world)                        -> prepared world, once per roll-out
    reset: Callable  # (prepared, noise)              -> state
    step: Callable  # (prepared, state, action, noise) -> Step
    observe: Callable  # (prepared, state)              -> observation
    noise: Callable  # (key, shape)                   -> noise for reset and step
    observations: Discrete
    actions: Discrete
    gamma: float
