"""From an engine's metrics to the rows of the log: one per round, averaged over seeds (but for what is named "…_by_seed"),
with what it has cost so far.

Costs are those of one seed (all seeds do the same work), counted from the start of the run.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import trees
from fedrl.federation import Federation
from fedrl.types import Algorithm, Exchange, Metrics

MOST_SEEDS = 64  # up to this many, the log keeps every seed's return and what else was measured
MOST_CLIENTS = 256  # up to this many, the log keeps every client's return

Row = dict[str, Any]


def wire_bytes(exchange: Exchange, algorithm: Algorithm, federation: Federation) -> tuple[int, int]:
    """Bytes down to and up from one client in one exchange, from the shapes of what travels."""
    key = jax.random.key(0)
    server = jax.eval_shape(algorithm.init, key)

    def trip(server: Any, key: Any) -> tuple[Any, Any]:
        asked = exchange.choose(server, key)
        shared = federation.shared()
        clients = federation.enrol(shared, key, algorithm)
        client = trees.take(federation.rows(shared, clients, asked.ids[:1]), jnp.int32(0))
        message = exchange.send(server, client.id)
        local = exchange.local.start(message, client, key)
        upload, _, _ = exchange.local.finish(local, client)
        return message, exchange.channel.encode(upload, asked, jnp.int32(0), key)

    message, wire = jax.eval_shape(trip, server, key)
    return trees.nbytes(message), trees.nbytes(wire)


class Ledger:
    """Turns metrics into rows and keeps the running totals; `resume` takes them up from the last row of a log."""

    def __init__(self, algorithm: Algorithm, federation: Federation):
        self.sizes = {e.name: wire_bytes(e, algorithm, federation) for e in (*algorithm.opening, *algorithm.exchanges)}
        server = jax.eval_shape(algorithm.init, jax.random.key(0))
        self.between = trees.nbytes(jax.eval_shape(algorithm.answer, server))  # a direction is a tree like theta
        self.totals = {"env_steps": 0, "bytes_down": 0, "bytes_up": 0, "bytes_peer": 0}
        self.seconds_before, self.since = 0.0, time.monotonic()

    def resume(self, last: Row) -> None:
        self.totals = {name: last[name] for name in self.totals}
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
                self.totals["bytes_peer"] += round_up(self.between * np.mean(metrics[f"{name}/messages"]))
        row |= self.totals
        for name, value in metrics.items():
            if not name.startswith("measure/") and not name.endswith(("/answered", "/env_steps")):
                each = name.endswith("_by_seed")
                row[name] = np.asarray(value) if each else np.mean(value, axis=0, dtype=np.float64)
        return row | measured(metrics)


def measured(metrics: Metrics) -> Row:
    """The part of a row that a measurement gives; empty in a round that was not measured.

    Whatever a measurement says besides the returns stands there under its own name: the mean over seeds, and by seed.
    """
    value = np.asarray(metrics.get("measure/return", np.nan), np.float64)
    if np.isnan(value).all() and not np.isinf(value).any():
        return {}
    returns = np.asarray(metrics["measure/returns"], np.float64)
    row: Row = {"return": value.mean(), "seeds": value.size}
    if value.size > 1:
        row["return_se"] = value.std(ddof=1) / np.sqrt(value.size)
    if value.size <= MOST_SEEDS:
        row["return_by_seed"] = value
    if returns.shape[1] <= MOST_CLIENTS:
        row["returns"] = returns.mean(axis=0)
    row["worst"] = returns.min(axis=1).mean()
    for name in (name.removeprefix("measure/") for name in metrics if name.startswith("measure/")):
        if name in ("return", "returns", "answered", "env_steps"):
            continue
        by_seed = np.asarray(metrics[f"measure/{name}"], np.float64)
        row[name] = by_seed.mean(axis=0)
        if value.size <= MOST_SEEDS:
            row[f"{name}_by_seed"] = by_seed
    return row


def lost(seeds: int, clients: int) -> Row:
    """What `measured` would say of a run that diverged: nothing is a number."""
    row: Row = {"return": np.nan, "seeds": seeds, "worst": np.nan}
    if seeds <= MOST_SEEDS:
        row["return_by_seed"] = np.full(seeds, np.nan)
    if clients <= MOST_CLIENTS:
        row["returns"] = np.full(clients, np.nan)
    return row


def round_to_ms(seconds: float) -> float:
    return float(f"{seconds:.3f}")


def round_up(steps: Any) -> int:
    return int(np.ceil(float(steps)))
