"""What every engine offers: start a run, play some rounds of it, measure it. Every leaf has a leading seed axis."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl.federation import Clients, Federation
from fedrl.keys import Key
from fedrl.types import Algorithm, Exchange, Metrics, Server


class State(NamedTuple):
    """All that a run must remember between rounds; with the round number it determines everything that follows."""

    key: Key  # of the seed
    server: Server
    clients: Clients


class Play(NamedTuple):
    init: Callable[[Sequence[int]], tuple[State, Metrics]]  # seeds -> state, metrics of the opening [seeds]
    advance: Callable[[State, int, int], tuple[State, Metrics]]  # state, first round, rounds -> metrics [seeds, rounds]
    measure: Callable[[State], Metrics]  # -> [seeds]
    most: int  # rounds that one call of `advance` may be asked for
    close: Callable[[], None] = lambda: None  # the run is over: simulators and the like may be let go


Engine = Callable[
    [Algorithm, Federation, Exchange, int], Play
]  # algorithm, federation, measurement, every how many rounds


def blank(like) -> Array:
    """What stands in the metrics of a round that was not measured: NaN, or zero for a count."""
    return jnp.full(like.shape, jnp.nan if jnp.issubdtype(like.dtype, jnp.floating) else 0, like.dtype)
