"""What every engine offers: start a run, play some rounds of it, measure it. Every leaf has a leading seed axis."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.core.round import State
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation
from fedrl.types import Algorithm, Exchange, Metrics


class Play(NamedTuple):
    init: Callable[[Sequence[int]], tuple[State, Metrics]]  # seeds -> state, metrics of the opening [seeds]
    advance: Callable[[State, int, int], tuple[State, Metrics]]  # state, first round, rounds -> metrics [seeds, rounds]
    evaluate: Callable[[State], Metrics]  # -> [seeds]
    most: int  # rounds that one call of `advance` may be asked for
    close: Callable[[], None] = lambda: None  # the run is over: release simulators and the like
    kind: str = "exact"  # the same bytes as all exact engines; "vmap" is compared by tolerance
    explain: Callable[[str, int, int, int], str] = lambda exchange, round, seed, client: (
        ""
    )  # what a client's fault was, in words


class Engine(Protocol):
    """Plays `algorithm` on `federation`; `evaluation` is an exchange too, played every `eval_every` rounds."""

    def __call__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int = 1,
        faults: Faults = STOP,
        /,
    ) -> Play: ...


def refuse_deadline(engine: str, faults: Faults) -> None:
    """For engines whose clients work in this very process."""
    if faults.deadline is not None:
        raise ValueError(
            f"{engine} cannot keep a deadline of {faults.deadline:g} s, because clients work in this process; "
            "use engine=processes() or ray(), or drop the deadline"
        )


def unmeasured(shapes: Any) -> Any:
    """What the metrics of a round that was not measured hold: NaN, or zero for a count."""

    def blank(like: Any) -> Array:
        return jnp.full(like.shape, jnp.nan if jnp.issubdtype(like.dtype, jnp.floating) else 0, like.dtype)

    return jax.tree.map(blank, shapes)
