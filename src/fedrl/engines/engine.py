"""What every engine offers: start a run, play some rounds of it, measure it. Every leaf has a leading seed axis."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl.faults import Faults
from fedrl.federation import Clients
from fedrl.keys import Key
from fedrl.types import Metrics, Server


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
    kind: str = "exact"  # the same bytes as all exact engines; "vmap" is compared by tolerance
    explain: Callable[[str, int, int, int], str] = lambda exchange, round, seed, client: (
        ""
    )  # what it said of a client's fault


# algorithm, federation, measurement, every how many rounds, what to do about faults (default: stop) -> Play
Engine = Callable[..., Play]


def refuse_deadline(engine: str, faults: Faults) -> None:
    """For engines whose clients work in this very process."""
    if faults.deadline is not None:
        raise ValueError(
            f"{engine} cannot keep a deadline of {faults.deadline:g} s, because clients work in this process; "
            "use engine=processes() or ray(), or drop the deadline"
        )


def blank(like) -> Array:
    """What stands in the metrics of a round that was not measured: NaN, or zero for a count."""
    return jnp.full(like.shape, jnp.nan if jnp.issubdtype(like.dtype, jnp.floating) else 0, like.dtype)
