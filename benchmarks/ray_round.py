"""Median time of a round of 1 MB each way to two workers: Ray actors, and processes of this machine."""

import argparse
import json
import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from arguments import parse

from fedrl import keys
from fedrl.channels.plain import plain
from fedrl.core.round import Executor, WorkRequest
from fedrl.engines import local_processes, ray_cluster
from fedrl.engines.worker_pool import worker_pool
from fedrl.faults import STOP
from fedrl.federations.federation import Profile
from fedrl.types import Client, Cohort, Exchange, LocalUpdate

AIM = 25.0  # ms


def echo() -> Exchange:
    """Every client sends back one more than it was sent, so that nothing can be left out."""
    local = LocalUpdate(
        start=lambda message, client, key: message + 1.0,
        sample=lambda local, client, key: (),
        estimate=lambda local, seen, client, key: ((), local),
        apply=lambda local, direction, client: local,
        finish=lambda local, client: (local, client.memory, jnp.zeros((), jnp.int32)),
        local_steps=0,
    )
    return Exchange(
        name="echo",
        choose=lambda server, key: server,
        send=lambda server, client_id: server,
        local=local,
        combine=lambda uploads, cohort: uploads,
        receive=lambda server, aggregate, cohort, key: (server, {}),
        channel=plain,
    )


def times(execute: Executor, exchange: Exchange, megabytes: float, rounds: int) -> np.ndarray:
    """Milliseconds of each round, from the server's arrays to the stack of uploads."""
    server = jnp.zeros(int(megabytes * 2**18))
    ids = jnp.arange(2, dtype=jnp.int32)
    rows = Client(ids, (), Profile(jnp.ones(2)), ())
    cohort = Cohort(ids, jnp.full(2, 0.5), jnp.ones(2, bool), jnp.zeros(2, jnp.int32))
    took = []
    for number in range(rounds + 5):
        server = jax.block_until_ready(server + 1.0)
        began = time.perf_counter()
        request = WorkRequest(keys.of_seed(0), server, rows, cohort, keys.of_seed(number), ())
        (result,) = execute(exchange, [request])
        took.append(1e3 * (time.perf_counter() - began))
        assert np.all(np.asarray(result.work.upload) == number + 2.0)
    return np.array(took[5:])


def evaluate(megabytes: float, rounds: int) -> dict[str, Any]:
    exchange, found = echo(), {}
    pools = {"processes": lambda: local_processes._pool(2), "ray": lambda: ray_cluster._pool(None, 2)}
    for name, pool in pools.items():
        workers = worker_pool(pool(), (exchange,), STOP, lambda *fault: None)
        took = times(workers.execute, exchange, megabytes, rounds)
        workers.close()
        found[name] = {"median": float(np.median(took)), "90 of 100": float(np.percentile(took, 90))}
    local_processes.stop()
    ray_cluster.stop()
    return {"megabytes": megabytes, "rounds": rounds, "cores": os.cpu_count(), "milliseconds": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", metavar="FILE")
    args = parse(parser, megabytes=0.01, rounds=1)
    found = evaluate(args.megabytes, args.rounds)
    for name, took in found["milliseconds"].items():
        print(
            f"{name:10} median {took['median']:6.1f} ms, 90 of 100 within {took['90 of 100']:6.1f} ms (aim {AIM:.0f})"
        )
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2)


if __name__ == "__main__":
    main()
