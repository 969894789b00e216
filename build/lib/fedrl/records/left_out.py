"""What the log says about clients that did not count in a round."""

from typing import Any

from fedrl.engines.absences import Explain, absences
from fedrl.faults import FaultCode
from fedrl.types import Metrics


def log_fields(round: int, metrics: Metrics, first_seed: int, explain: Explain) -> dict[str, Any]:
    """The fields of a row of the log: `left_out` for faults of this round, `not_asked` for clients with too many."""
    of_round = list(absences(metrics))
    faulty = [one for one in of_round if one.code != FaultCode.NOT_ASKED]
    not_asked = sorted({(first_seed + one.seed, one.client) for one in of_round if one.code == FaultCode.NOT_ASKED})
    row: dict[str, Any] = {}
    if faulty:
        row["left_out"] = [
            {
                "exchange": one.exchange,
                "seed": first_seed + one.seed,
                "client": one.client,
                "why": one.describe(round, explain),
            }
            for one in faulty
        ]
    if not_asked:
        row["not_asked"] = [{"seed": seed, "client": client} for seed, client in not_asked]
    return row


def warning(round: int, left_out: list[dict[str, Any]]) -> str:
    """One line on the faults of a round."""
    first, others = left_out[0], len(left_out) - 1
    more = f"; and {others} more, see the log" if others else ""
    where = f"exchange {first['exchange']!r}, seed {first['seed']}"
    return f"round {round}, {where}: client {first['client']} was left out: {first['why']}{more}"
