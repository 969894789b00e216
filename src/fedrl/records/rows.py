"""From an engine's metrics to log rows: one per round, averaged over seeds (except names ending in "_by_seed"), with the
costs so far.

Costs are those of one seed (all seeds do the same work), counted from the start of the run.
"""

import time
from typing import Any

import jax
import numpy as np

from fedrl import trees
from fedrl.core import shapes
from fedrl.engines.absences import ASKABLE, CODES, IDS, absences
from fedrl.faults import FaultCode
from fedrl.federations.federation import Federation
from fedrl.records.log import Row
from fedrl.types import Algorithm, Exchange, Metrics

MOST_CLIENTS = 256  # up to this many, the log keeps every client's return
COUNTS = (
    "/answered",
    "/env_steps",
    IDS,
    CODES,
    ASKABLE,
)  # metrics of every exchange that do not appear in a row


def wire_bytes(exchange: Exchange, algorithm: Algorithm, federation: Federation) -> tuple[int, int]:
    """Bytes down to and up from one client in one exchange, from the shapes of message and upload."""
    request = shapes.of_request(exchange, algorithm, federation)
    message, upload = shapes.of_message(exchange, request), shapes.of_work(exchange, request).upload
    return trees.nbytes(message), trees.nbytes(upload)


class Ledger:
    """Turns metrics into rows and keeps running totals; `resume` continues them from the last row of a log."""

    def __init__(self, algorithm: Algorithm, federation: Federation):
        self.sizes = {e.name: wire_bytes(e, algorithm, federation) for e in (*algorithm.opening, *algorithm.exchanges)}
        server = jax.eval_shape(algorithm.init, jax.random.key(0))
        self.peer_bytes = trees.nbytes(_without_filters(jax.eval_shape(algorithm.answer, server)))
        self.totals = {"env_steps": 0, "bytes_down": 0, "bytes_up": 0, "bytes_peer": 0}
        self.faults = 0  # over all seeds; rows have it from the first fault on
        self.seconds_before, self.since = 0.0, time.monotonic()

    def resume(self, last: Row) -> None:
        self.totals = {name: last[name] for name in self.totals}
        self.faults = last.get("faults", 0)
        self.seconds_before, self.since = last["seconds"], time.monotonic()

    def row(self, round: int, metrics: Metrics) -> Row:
        """The row of one round; every leaf of `metrics` is [seeds, ...]."""
        row: Row = {"round": round, "seconds": round_to_ms(self.seconds_before + time.monotonic() - self.since)}
        for name, (down, up) in self.sizes.items():
            if f"{name}/answered" in metrics:
                answered = int(np.mean(metrics[f"{name}/answered"]))
                self.totals["bytes_down"] += down * answered
                self.totals["bytes_up"] += up * answered
                self.totals["env_steps"] += round_up(np.mean(metrics[f"{name}/env_steps"]))
            if f"{name}/messages" in metrics:
                self.totals["bytes_peer"] += round_up(self.peer_bytes * np.mean(metrics[f"{name}/messages"]))
        row |= self.totals
        self.faults += sum(one.code != FaultCode.NOT_ASKED for one in absences(metrics))
        if self.faults:
            row["faults"] = self.faults
        for name, value in metrics.items():
            if not name.startswith("measure/") and not name.endswith(COUNTS):
                each = name.endswith("_by_seed")
                row[name] = np.asarray(value) if each else of_each(np.asarray(value, np.float64))
        return row | evaluated(metrics)


def _without_filters(answer: Any) -> Any:
    """Neighbours exchange directions, which change parameters but not the statistics that travel with them."""
    return answer._replace(filters=()) if hasattr(answer, "filters") else answer


def evaluated(metrics: Metrics) -> Row:
    """The part of a row that comes from an evaluation; empty in a round that was not evaluated.

    Other metrics of the evaluation appear under their own names: the mean over seeds, and by seed.
    """
    value = np.asarray(metrics.get("measure/return", np.nan), np.float64)
    if np.isnan(value).all() and not np.isinf(value).any():
        return {}
    returns = returns_of(metrics)
    row: Row = {"return": value.mean(), "seeds": value.size}
    if value.size > 1:
        row["return_se"] = value.std(ddof=1) / np.sqrt(value.size)
    row["return_by_seed"] = value
    if returns.shape[1] <= MOST_CLIENTS:
        row["returns"] = of_each(returns)
    row["worst"] = worst(returns)
    for name in (name.removeprefix("measure/") for name in metrics if name.startswith("measure/")):
        if name in ("return", "returns") or f"/{name}" in COUNTS:
            continue
        by_seed = np.asarray(metrics[f"measure/{name}"], np.float64)
        row[name] = by_seed.mean(axis=0)
        row[f"{name}_by_seed"] = by_seed
    return row


def returns_of(metrics: Metrics) -> np.ndarray:
    """[seeds, clients] evaluated returns; NaN for clients that were left out."""
    returns = np.asarray(metrics["measure/returns"], np.float64)
    codes = np.asarray(metrics.get("measure/fault_codes", 0))
    return np.where(codes > 0, np.nan, returns) if np.shape(codes) == returns.shape else returns


def of_each(returns: np.ndarray) -> np.ndarray:
    """[seeds, ...] -> the mean over those seeds that have a number, e.g. of each client's return; NaN if none has."""
    present = ~np.isnan(returns)
    if present.all():
        return np.asarray(returns.mean(axis=0))
    count = present.sum(axis=0)
    total = np.where(present, returns, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def worst(returns: np.ndarray) -> float:
    """The lowest return of any client, averaged over seeds; NaN if a seed has no client."""
    least = np.where(np.isnan(returns), np.inf, returns).min(axis=1)
    return (
        float(np.where(np.isinf(least), np.nan, least).mean())
        if np.isnan(returns).any()
        else returns.min(axis=1).mean()
    )


def diverged(rows: list[Row], seeds: int, clients: int) -> Row:
    """The evaluation of a run that diverged after `rows`: the same fields, all NaN."""
    row: Row = {"return": np.nan, "return_by_seed": np.full(seeds, np.nan), "seeds": seeds, "worst": np.nan}
    if seeds > 1:
        row["return_se"] = np.nan
    if clients <= MOST_CLIENTS:
        row["returns"] = np.full(clients, np.nan)
    last = next((row for row in reversed(rows) if "return" in row), {})
    for name in [name for name in last if f"{name}_by_seed" in last and name not in row]:
        row[name] = np.full(np.shape(last[name]), np.nan)
        row[f"{name}_by_seed"] = np.full(np.shape(last[f"{name}_by_seed"]), np.nan)
    return row


def round_to_ms(seconds: float) -> float:
    return float(f"{seconds:.3f}")


def round_up(steps: Any) -> int:
    return int(np.ceil(float(steps)))
