"""Clients that did not count in a round, and whether the run may go on without them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fedrl.environments.errors import EnvironmentFailed, TrainingDiverged
from fedrl.faults import DESCRIPTIONS, FaultCode, Faults
from fedrl.types import Metrics

IDS, CODES = "/asked_ids", "/fault_codes"  # of an exchange's metrics, both [seeds, clients asked]
ASKABLE = "/askable"  # [seeds] how many clients of the whole federation may still be asked
Explain = Callable[
    [str, int, int, int], str
]  # (exchange, round, seed, client) -> the engine's description of its fault


class Absence(NamedTuple):
    """A client that was chosen in an exchange and did not count."""

    exchange: str
    seed: int  # counted from zero
    client: int
    code: FaultCode

    def describe(self, round: int, explain: Explain) -> str:
        """Why it did not count, with the first line of the engine's report about it."""
        by_engine = self.code >= FaultCode.RAISED
        lines = explain(self.exchange, round, self.seed, self.client).strip().splitlines() if by_engine else []
        return f"{DESCRIPTIONS[self.code]} ({lines[0]})" if lines else DESCRIPTIONS[self.code]


def absences(metrics: Metrics) -> Iterator[Absence]:
    """All absences in a round; every leaf of `metrics` is [seeds, ...]."""
    for name in metrics:
        if name.endswith(CODES):
            exchange = name.removesuffix(CODES)
            codes, ids = np.asarray(metrics[name]), np.asarray(metrics[exchange + IDS])
            for seed, slot in np.argwhere(codes).tolist():
                yield Absence(exchange, seed, int(ids[seed, slot]), FaultCode(int(codes[seed, slot])))


def check_quorum(faults: Faults, round: int, metrics: Metrics, first_seed: int, explain: Explain) -> None:
    """Raise if a round must not count: at the first fault under `stop`, below the quorum under `leave_out`.

    An exchange that drew only clients that are no longer asked changes nothing, so it may pass as long as the federation
    has others.
    """
    all_absences = list(absences(metrics))
    for exchange in dict.fromkeys(one.exchange for one in all_absences):
        of_exchange = [one for one in all_absences if one.exchange == exchange]
        for seed in sorted({one.seed for one in of_exchange}):
            of_seed = [one for one in of_exchange if one.seed == seed]
            num_counted = int(np.asarray(metrics[f"{exchange}/answered"])[seed])
            num_asked = num_counted + len(of_seed)
            nobody_asked = all(one.code == FaultCode.NOT_ASKED for one in of_seed) and not num_counted
            if nobody_asked and np.asarray(metrics[exchange + ASKABLE])[seed] > 0:
                continue
            if num_counted < faults.required(num_asked):
                where = f"round {round}, exchange {exchange!r}, seed {first_seed + seed}"
                # a fault of this round, if there is one
                first = min(of_seed, key=lambda one: one.code == FaultCode.NOT_ASKED)
                text = f"{where}: client {first.client}: {first.describe(round, explain)}"
                raise _error(faults, text, first.code, num_counted, num_asked)


def _error(faults: Faults, fault: str, code: FaultCode, num_counted: int, num_asked: int) -> EnvironmentFailed:
    diverged = code in (FaultCode.NOT_FINITE, FaultCode.MEMORY)
    if not faults.leaves_out:
        fix = "take smaller steps or clip the gradient" if diverged else "fix this client"
        text = f"{fault}; {fix}, or go on without such clients: faults=leave_out()"
        return TrainingDiverged(text) if diverged else EnvironmentFailed(text)
    text = f"{fault}; {num_counted} of {num_asked} clients are left, the quorum is {faults.required(num_asked)}"
    if num_counted == 0 and diverged:
        return TrainingDiverged(f"{text}; take smaller steps or clip the gradient")
    advice = (
        f"ask them again with in_a_row={faults.in_a_row + 1} or more"
        if code == FaultCode.NOT_ASKED
        else "fix these clients"
    )
    return EnvironmentFailed(f"{text}; the rounds before are kept: {advice} or lower the quorum, then resume")
