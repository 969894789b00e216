"""What happens when a client fails: `stop` the run, or `leave_out` the client and go on with the others.

A client fails if it raises an error, dies, misses its deadline, or sends something unusable: numbers that are not finite,
a wrong shape or dtype, too large a norm, an impossible count of environment steps or an impossible return. Each engine
detects faults in its own way; the consequences, here and in `core/admission.py`, are the same for all of them.
"""

import math
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from fedrl.arguments import checked

__all__ = ["DESCRIPTIONS", "STOP", "ClientFault", "FaultCode", "Faults", "leave_out", "stop"]


class FaultCode(IntEnum):
    """Why a client did not count in an exchange. Metrics carry these numbers."""

    FINE = 0
    NOT_FINITE = 1
    MEMORY = 2
    STEPS = 3
    NORM = 4
    IMPOSSIBLE = 5
    RAISED = 6
    SHAPE = 7
    DIED = 8
    LATE = 9
    NOT_ASKED = 10  # not a fault itself: the client has had too many
    ANSWER = 11
    ABSENT = 12
    REFUSED = 13
    NUMBER = 14


DESCRIPTIONS = {
    FaultCode.NOT_FINITE: "its upload is not finite",
    FaultCode.MEMORY: "its memory is not finite",
    FaultCode.STEPS: "it reports more environment steps than it can have taken, or fewer than none",
    FaultCode.NORM: "the norm of its upload is above the limit",
    FaultCode.IMPOSSIBLE: "it reports a return, or statistics, that are not possible",
    FaultCode.RAISED: "it raised an error",
    FaultCode.SHAPE: "it sent arrays of the wrong shape or dtype",
    FaultCode.DIED: "its worker died",
    FaultCode.LATE: "it did not answer by the deadline",
    FaultCode.NOT_ASKED: "it is not asked any more",
    FaultCode.ANSWER: "its answer does not belong to the question",
    FaultCode.ABSENT: "its site is not there",
    FaultCode.REFUSED: "its site takes no part",
    FaultCode.NUMBER: "it sent a number beyond the limit",
}


class Faults(NamedTuple):
    """A rule for failing clients. Use `stop` or `leave_out`, which check their arguments."""

    leaves_out: bool = False
    quorum: int | float = 1
    in_a_row: int = 3
    deadline: float | None = None
    largest_norm: float | None = None

    def required(self, asked: int) -> int:
        """How many of `asked` clients must count for the run to go on."""
        if not self.leaves_out:
            return asked
        share = isinstance(self.quorum, float)
        return max(1, math.ceil(self.quorum * asked - 1e-9) if share else min(int(self.quorum), asked))


class ClientFault(NamedTuple):
    """How one client failed, as an engine reports it."""

    code: FaultCode
    error: Exception  # to raise if faults stop the run


@checked
def stop(*, deadline: float | None = None, largest_norm: float | None = None) -> Faults:
    """The first fault ends the run with an error that names client, exchange and round; earlier rounds are kept.

    `deadline` is how many seconds one client's work may take, without compiling; None waits for ever. `largest_norm` limits
    the Euclidean norm of the part of an upload that moves parameters; None allows any finite norm.
    """
    return _in_range(Faults(False, 1, 1, _plain(deadline), _plain(largest_norm)))


@checked
def leave_out(
    *,
    quorum: int | float = 1,
    in_a_row: int = 3,
    deadline: float | None = None,
    largest_norm: float | None = None,
) -> Faults:
    """A client with a fault does not count in that exchange; the others go on, with their weights renormalised.

    After `in_a_row` consecutive faults in the same exchange a client is not asked again. If fewer than `quorum` clients
    (a count, or as a float a share of the cohort) are left in an exchange, the run stops with a checkpoint.
    `deadline` and `largest_norm` are as in `stop`.
    """
    return _in_range(Faults(True, *map(_plain, (quorum, in_a_row, deadline, largest_norm))))


def _in_range(faults: Faults) -> Faults:
    quorum = faults.quorum
    if not (0 < quorum <= 1 if isinstance(quorum, float) else quorum >= 1):
        raise ValueError(
            f"quorum must be a whole number of clients (3) or a share of the cohort above 0 and up to 1.0 (0.5), "
            f"got {quorum!r}"
        )
    if faults.in_a_row < 1:
        raise ValueError(f"in_a_row must be a whole number of at least 1, got {faults.in_a_row!r}; 3 is the default")
    for name, value in (("deadline", faults.deadline), ("largest_norm", faults.largest_norm)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be a positive finite number, got {value!r}; leave it out for none")
    return faults


def _plain(number: Any) -> Any:
    """A number of NumPy or JAX as a Python number."""
    return number if number is None else np.asarray(number).item()


STOP = stop()


def __dir__() -> list[str]:
    return __all__
