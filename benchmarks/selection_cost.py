"""What FedPOHCS's look at the candidates costs: 18 candidates, 8,000 distinct states and 100 actions each.

    python benchmarks/selection_cost.py [--candidates 18] [--sweeps 100] [--repetitions 5] [--json FILE]

Synthetic trajectories of 5 x 2,048 steps in 40 rows, a Gaussian policy of two layers of 64 on two inputs. Timed are the
reports of all candidates one after the other, as the exact engine does it, and the server's comparison; compilation is not.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from arguments import parse

from fedrl.environments.control import mountain_car
from fedrl.keys import of_seed
from fedrl.learners.ppo import ppo
from fedrl.selection.fedpohcs import deltas, visited
from fedrl.selection.numbering import secret
from fedrl.selection.tabular import tabular
from fedrl.types import Client, Trajectory

ROWS, STEPS = 40, 256
STATES, ACTIONS, ROUNDING = 8_000, 100, 0.1


def trajectories(count: int) -> Trajectory:
    """A stack of walks that come to every one of 8,000 states, in no order, and end once in 500 steps."""
    random = np.random.default_rng(0)
    twice = ROWS * STEPS - STATES
    ids = np.stack([np.append(np.arange(STATES), random.integers(0, STATES, twice)) for _ in range(count)])
    ids = random.permuted(ids, axis=1).reshape(count, ROWS, STEPS)
    obs = (ROUNDING * np.stack([ids % 100 - 50, ids // 100 - 40], axis=-1)).astype(np.float32)
    terminated = random.random(ids.shape) < 1 / 500
    truncated = np.zeros(ids.shape, bool)
    truncated[..., -1] = True
    return Trajectory(
        obs=obs,
        choice=(ROUNDING * (random.integers(0, ACTIONS, (*ids.shape, 1)) - ACTIONS // 2)).astype(np.float32),
        reward=random.random(ids.shape).astype(np.float32),
        alive=np.ones(ids.shape, bool),
        terminated=terminated,
        truncated=truncated & ~terminated,
        after=np.roll(obs, -1, axis=2),
    )


def best(function: Callable, *args: Any, repetitions: int) -> dict[str, float]:
    """The least seconds by the clock and of CPU time, after a first call that compiles."""
    jax.block_until_ready(function(*args))
    clock, cpu = [], []
    for _ in range(repetitions):
        began, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(function(*args))
        clock.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return {"seconds": min(clock), "CPU seconds": min(cpu)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=18)
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    args = parse(parser, candidates=2, sweeps=1, repetitions=1)
    environment = mountain_car.environment()
    learner = ppo(steps=8 * STEPS, num_envs=8, remember=ROWS // 8, warm_up=ROWS * STEPS)(environment)
    theta = learner.init(of_seed(0))
    memory = learner.memory(jnp.int32(0), of_seed(0))
    learner = learner._replace(
        recent=lambda theta, client: client.memory.recent
    )  # the walks are as the networks see them
    tell = visited(learner, environment.gamma, rounding=ROUNDING, sweeps=args.sweeps)
    walks = jax.tree.map(jnp.asarray, trajectories(args.candidates))
    hidden = secret(of_seed(1))
    model = jax.jit(lambda walk: tabular(walk, ROUNDING, hidden))(jax.tree.map(lambda x: x[0], walks))
    distinct = {name: len(np.unique(np.asarray(x))) for name, x in (("states", model.state), ("pairs", model.pair))}

    def reports(walks: Trajectory) -> Any:
        def one(walk: Trajectory) -> Any:
            return tell(theta, Client(jnp.int32(0), (), (), memory._replace(recent=walk)), hidden)

        return jax.lax.map(one, walks)

    told = jax.jit(reports)(walks)
    compare = jax.jit(lambda told: deltas(told, jnp.ones(args.candidates)))
    rows = {
        "reports": best(jax.jit(reports), walks, repetitions=args.repetitions),
        "comparison": best(compare, told, repetitions=args.repetitions),
    }
    rows["together"] = {name: sum(row[name] for row in rows.values()) for name in rows["reports"]}
    print(f"{args.candidates} candidates, {distinct['states']:,} states and {distinct['pairs']:,} pairs each")
    for name, row in rows.items():
        print(f"{name:>12}{row['seconds']:8.3f} s{row['CPU seconds']:8.3f} CPU s")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"distinct": distinct, **rows}, file, indent=2)


if __name__ == "__main__":
    main()
