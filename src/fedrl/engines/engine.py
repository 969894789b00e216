"""The interface of all engines: start a run, play some of its rounds, evaluate it. Every leaf has a leading seed axis."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from fedrl.core.round import State
from fedrl.engines.absences import Explain
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation
from fedrl.types import Algorithm, Exchange, Metrics


class Init(Protocol):
    """The first state of each seed, and the metrics of the opening [seeds]."""

    def __call__(self, seeds: Sequence[int], /) -> tuple[State, Metrics]: ...


class Advance(Protocol):
    """The state after `rounds` rounds from round `first` on (counted from zero), and their metrics [seeds, rounds]."""

    def __call__(self, state: State, first: int, rounds: int, /) -> tuple[State, Metrics]: ...


class Evaluate(Protocol):
    """The metrics of an evaluation [seeds]."""

    def __call__(self, state: State, /) -> Metrics: ...


def do_nothing() -> None:
    pass


def no_explanation(exchange: str, round: int, seed: int, client: int) -> str:
    return ""


class Play(NamedTuple):
    """One run on an engine."""

    init: Init
    advance: Advance
    evaluate: Evaluate
    most: int  # rounds per call of `advance`
    close: Callable[[], None] = do_nothing  # called at the end of the run: release simulators and the like
    kind: str = "exact"  # the same bytes as all exact engines; "vmap" is compared by tolerance
    explain: Explain = no_explanation  # describes a client's fault


class Engine(Protocol):
    """Plays `algorithm` on `federation`; `evaluation` is an exchange that is played every `eval_every` rounds."""

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
    """For engines whose clients work in this process."""
    if faults.deadline is not None:
        raise ValueError(
            f"{engine} cannot keep a deadline of {faults.deadline:g} s, because clients work in this process; "
            "use engine=processes() or ray(), or drop the deadline"
        )


def placeholders(shapes: Metrics) -> Metrics:
    """The metrics of a round without evaluation: NaN, or zero for a count."""

    def fill(like: Array) -> Array:
        return jnp.full(like.shape, jnp.nan if jnp.issubdtype(like.dtype, jnp.floating) else 0, like.dtype)

    return {name: fill(like) for name, like in shapes.items()}
