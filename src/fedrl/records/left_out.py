"""Clients that did not count in a round: what the log says of them, and whether the run may go on without them."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fedrl.environments.errors import EnvironmentFailed, TrainingDiverged
from fedrl.faults import WORDS, Faults, Why
from fedrl.types import Metrics

IDS, CODES = "/asked_ids", "/fault_codes"  # of an exchange's metrics, both [seeds, clients asked]
ASKABLE = "/askable"  # [seeds] how many clients of the whole federation may still be asked
Explain = Callable[[str, int, int, int], str]  # (exchange, round, seed, client) -> what the engine said of its fault


class Absent(NamedTuple):
    exchange: str
    seed: int  # as a number from zero
    client: int
    why: Why


def absent(metrics: Metrics) -> Iterator[Absent]:
    """All who were chosen in a round and did not count; every leaf of `metrics` is [seeds, ...]."""
    for name in metrics:
        if name.endswith(CODES):
            exchange = name.removesuffix(CODES)
            codes, ids = np.asarray(metrics[name]), np.asarray(metrics[exchange + IDS])
            for seed, slot in np.argwhere(codes).tolist():
                yield Absent(exchange, seed, int(ids[seed, slot]), Why(int(codes[seed, slot])))


def listed(round: int, metrics: Metrics, first_seed: int, explain: Explain) -> dict[str, Any]:
    """The fields of a row of the log: `left_out` for faults of this round, `not_asked` for those who have had too many."""
    found = list(absent(metrics))
    faulty = [one for one in found if one.why != Why.NOT_ASKED]
    silent = sorted({(first_seed + one.seed, one.client) for one in found if one.why == Why.NOT_ASKED})
    row: dict[str, Any] = {}
    if faulty:
        row["left_out"] = [
            {
                "exchange": one.exchange,
                "seed": first_seed + one.seed,
                "client": one.client,
                "why": _why(one, round, explain),
            }
            for one in faulty
        ]
    if silent:
        row["not_asked"] = [{"seed": seed, "client": client} for seed, client in silent]
    return row


def warning(round: int, left_out: list[dict[str, Any]]) -> str:
    """One line on the faults of a round."""
    first, others = left_out[0], len(left_out) - 1
    more = f"; and {others} more, see the log" if others else ""
    where = f"exchange {first['exchange']!r}, seed {first['seed']}"
    return f"round {round}, {where}: client {first['client']} was left out: {first['why']}{more}"


def check(faults: Faults, round: int, metrics: Metrics, first_seed: int, explain: Explain) -> None:
    """Raise if a round must not count: by the first fault under `stop`, below the quorum under `leave_out`.

    An exchange for which only clients were drawn that are not asked any more changes nothing, so it may pass, as long as
    others are left in the federation.
    """
    found = list(absent(metrics))
    for exchange in dict.fromkeys(one.exchange for one in found):
        missing = [one for one in found if one.exchange == exchange]
        for seed in sorted({one.seed for one in missing}):
            of_seed = [one for one in missing if one.seed == seed]
            counted = int(np.asarray(metrics[f"{exchange}/answered"])[seed])
            asked = counted + len(of_seed)
            passes = all(one.why == Why.NOT_ASKED for one in of_seed) and not counted
            if passes and np.asarray(metrics[exchange + ASKABLE])[seed] > 0:
                continue
            if counted < faults.needed(asked):
                where = f"round {round}, exchange {exchange!r}, seed {first_seed + seed}"
                first = min(of_seed, key=lambda one: one.why == Why.NOT_ASKED)  # a fault of now, if there is one
                what = f"{where}: client {first.client}: {_why(first, round, explain)}"
                raise _refusal(faults, what, first.why, counted, asked)


def _refusal(faults: Faults, what: str, why: Why, counted: int, asked: int) -> EnvironmentFailed:
    diverged = why in (Why.NOT_FINITE, Why.MEMORY)
    if not faults.leaves_out:
        mend = "take smaller steps or clip the gradient" if diverged else "fix this client"
        text = f"{what}; {mend}, or go on without such clients: faults=leave_out()"
        return TrainingDiverged(text) if diverged else EnvironmentFailed(text)
    text = f"{what}; {counted} of {asked} clients are left, the quorum is {faults.needed(asked)}"
    if counted == 0 and diverged:
        return TrainingDiverged(f"{text}; take smaller steps or clip the gradient")
    again = (
        f"ask them again with in_a_row={faults.in_a_row + 1} or more" if why == Why.NOT_ASKED else "fix these clients"
    )
    return EnvironmentFailed(f"{text}; the rounds before are kept: {again} or lower the quorum, then resume")


def _why(one: Absent, round: int, explain: Explain) -> str:
    told = explain(one.exchange, round, one.seed, one.client).strip().splitlines() if one.why >= Why.RAISED else []
    return f"{WORDS[one.why]} ({told[0]})" if told else WORDS[one.why]
