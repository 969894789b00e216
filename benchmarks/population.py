"""A round costs the same in a federation of a thousand clients and in one of a million.

    python benchmarks/population.py [--populations 1000 10000 100000 1000000] [--json FILE]

Each population runs in a process of its own, 100 participants a round, so that its peak memory is its own. Worlds of up
to `federation.HELD` clients are held in memory; of more, drawn anew when a client is asked.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

from arguments import parse

LIMIT_GB = 2.0


def one(population: int, rounds: int, participants: int) -> dict[str, Any]:
    """Play `rounds` rounds in this process, after a first call that compiles."""
    import jax

    from fedrl.algorithms.fedavg import pavg
    from fedrl.engines.fused import fused
    from fedrl.environments.tabular import finite, random_mdp
    from fedrl.evaluation import exact_return
    from fedrl.federations.federation import HELD, Federation
    from fedrl.selection.participation import uniform

    federation = Federation(finite.environment(5, 5, 0.9), random_mdp.dense(5, 5, 0.5), clients=population)
    some = uniform(participants)
    algorithm = pavg(eta=0.05, local_steps=32, horizon=50, selection=some)(federation)
    play = fused("vmap")(algorithm, federation, exact_return(some)(algorithm, federation), 1)
    began = time.perf_counter()
    state, _ = play.init([0])
    state, _ = jax.block_until_ready(play.advance(state, 0, 1))
    ready, cpu_ready = time.perf_counter(), time.process_time()
    done = 1
    while done < 1 + rounds:
        count = min(play.most, 1 + rounds - done)
        state, metrics = jax.block_until_ready(play.advance(state, done, count))
        done += count
    return {
        "population": population,
        "worlds": "held" if population <= HELD else "drawn",
        "start seconds": ready - began,
        "seconds per round": (time.perf_counter() - ready) / rounds,
        "CPU seconds per round": (time.process_time() - cpu_ready) / rounds,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "return": float(metrics["measure/return"][0, -1]),
    }


def alone(population: int, args: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", str(population)]
    command += ["--rounds", str(args.rounds), "--participants", str(args.participants)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--participants", type=int, default=100)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parse(parser, populations=[20], rounds=1, participants=5)
    if args.one:
        print(json.dumps(one(args.one, args.rounds, args.participants)))
        return
    print(f"{'clients':>10}{'worlds':>8}{'start s':>9}{'s/round':>9}{'CPU s/round':>13}{'peak GB':>9}{'return':>8}")
    rows = []
    for population in args.populations:
        row = alone(population, args)
        rows.append(row)
        print(
            f"{population:10,}{row['worlds']:>8}{row['start seconds']:9.1f}{row['seconds per round']:9.4f}"
            f"{row['CPU seconds per round']:13.4f}{row['peak GB']:9.2f}{row['return']:8.3f}",
            flush=True,
        )
    costs = [row["CPU seconds per round"] for row in rows]
    print(f"CPU time per round, largest population / smallest: {costs[-1] / costs[0]:.2f}")
    within = all(row["peak GB"] < LIMIT_GB for row in rows)
    print(f"peak memory under {LIMIT_GB:g} GB: {'yes' if within else 'NO'}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
