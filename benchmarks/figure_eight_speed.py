"""How fast is the Figure Eight of arrays: thousands of simulations in one compiled program against the SUMO environment.

    python benchmarks/figure_eight_speed.py [--simulations 2048] [--repetitions 5] [--json FILE]

Both play uniform random actions with the humans' noise and observe everything after every step; a step is one of a whole
simulation, fourteen vehicles. They take turns, and CPU time (all threads) stands beside the clock: SUMO has one core.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")  # the compile time reported is the real one

import jax
import jax.numpy as jnp
import numpy as np
from arguments import parse
from jax import Array

from fedrl import keys, trees
from fedrl.environments.traffic import figure_eight
from fedrl.environments.traffic.sumo.figure_eight import FigureEight

AIM = 30.0
OURS, SUMO = "fedrl, arrays", "libsumo"


def with_arrays(simulations: int, steps: int) -> Callable[[int], int]:
    """A turn: so many steps of all simulations, from where the last turn left them. Epochs that end begin anew."""
    env, env_params = figure_eight.environment(), figure_eight.params()

    def step(state: Any, key: Array) -> tuple[Any, Array]:
        action = jax.random.uniform(keys.of(key, "act"), (simulations, env.agents, 1), minval=-1.0)
        noise = env.noise(keys.of(key, "move"), (simulations,))

        def one(state: Any, action: Array, noise: Array) -> tuple[Any, Array]:
            after = env.step(env_params, state, action, noise)
            total = jnp.sum(env.observe(env_params, after.state)) + jnp.sum(after.reward)
            return trees.where(after.terminated | after.truncated, env.reset(env_params, noise), after.state), total

        state, total = jax.vmap(one)(state, action, noise)
        return state, jnp.sum(total)

    @jax.jit
    def play(state: Any, key: Array) -> tuple[Any, Array]:
        return jax.lax.scan(step, state, jax.vmap(lambda t: keys.of(key, t))(jnp.arange(steps)))

    first = env.reset(env_params, jnp.zeros(0))
    kept = [jax.tree.map(lambda x: jnp.broadcast_to(x[None], (simulations, *x.shape)), first)]

    def turn(number: int) -> int:
        kept[0], _ = jax.block_until_ready(play(kept[0], keys.of(keys.of_seed(0), number)))
        return simulations * steps

    return turn


def with_sumo(steps: int) -> Callable[[int], int]:
    """A turn: so many steps of one simulation, which reads the state, computes the humans' IDM and sends 14 commands."""
    env = FigureEight(speed_dev=0.0)

    def turn(number: int) -> int:
        actions = np.random.default_rng(number).uniform(-1.0, 1.0, (steps, len(env.possible_agents)))
        env.begin(number)
        for action in actions:
            if (outcome := env.advance(action)).crash or outcome.truncated:
                env.begin(number)
        return steps

    return turn


def seconds(turn: Callable[[int], int], number: int) -> tuple[int, np.ndarray]:
    """Steps taken, and seconds by the clock and of CPU time."""
    began = np.array([time.perf_counter(), time.process_time()])
    return turn(number), np.array([time.perf_counter(), time.process_time()]) - began


def evaluate(simulations: int, steps: int, repetitions: int, sumo_steps: int) -> dict[str, Any]:
    turns = {OURS: with_arrays(simulations, steps), SUMO: with_sumo(sumo_steps)}
    compiling = {name: seconds(turn, 0)[1][0] for name, turn in turns.items()}
    rates: dict[str, list[np.ndarray]] = {name: [] for name in turns}
    for number in range(1, repetitions + 1):
        for name, turn in turns.items():
            taken, took = seconds(turn, number)
            rates[name].append(taken / took)
    clock, cpu = np.median(np.array(rates[OURS]) / np.array(rates[SUMO]), axis=0)
    return {
        "simulations": simulations,
        "cores": os.cpu_count(),
        "first turn, seconds": compiling,
        "steps per second": {name: float(np.median(rate, axis=0)[0]) for name, rate in rates.items()},
        "steps per CPU second": {name: float(np.median(rate, axis=0)[1]) for name, rate in rates.items()},
        "ratio": {"by the clock": float(clock), "by CPU time": float(cpu)},
    }


def show(found: dict[str, Any]) -> None:
    print(f"{'':15}{'steps/s':>12}{'steps/CPU s':>13}{'first turn s':>14}")
    for name, rate in found["steps per second"].items():
        first = found["first turn, seconds"][name]
        print(f"{name:15}{rate:12,.0f}{found['steps per CPU second'][name]:13,.0f}{first:14.2f}")
    clock, cpu = found["ratio"].values()
    met = "met" if min(clock, cpu) >= AIM else "missed"
    print(
        f"{found['simulations']} simulations: {clock:.0f} x SUMO by the clock, {cpu:.0f} x by CPU time (aim {AIM:g}: {met})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=2048)
    parser.add_argument(
        "--steps", type=int, default=300, help="of every simulation, in a turn; five turns make an epoch"
    )
    parser.add_argument("--sumo-steps", type=int, default=1500, help="of one simulation, in a turn")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    args = parse(parser, simulations=4, steps=5, repetitions=1, sumo_steps=5)
    found = evaluate(args.simulations, args.steps, args.repetitions, args.sumo_steps)
    show(found)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2, default=float)


if __name__ == "__main__":
    main()
