"""A full round of `xie2025`'s Mountain Cars at the paper's size, and the share of it that FedPOHCS's metrics take.

    python benchmarks/mountain_cars_round.py [--rounds 12]

60 clients, 18 candidates with metrics, 6 participants x 5 iterations x 2,048 steps, evaluation of all 60 with 10 episodes.
The authors report about 6 minutes a round on 16 cores. The look at the candidates is timed on its own, on the state after
each round, and rounds of FedAvg are played in between, so that a busy machine slows all three alike.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
from arguments import parse

from fedrl.engines.engine import Play
from fedrl.engines.fused import fused
from fedrl.recipes.xie2025 import fig2
from fedrl.recipes.xie2025._methods import FEDAVG, FEDPOHCS

AIM, SHARE = 3.0, 0.10
SMALLEST: dict[str, Any] = {
    "clients": 4, "candidates": 2, "participants": 1, "local_steps": 1, "episodes": 1, "steps": 64, "warm_up": 64,
    "remember": 1, "sweeps": 2,
}  # fmt: skip


def build(config: fig2.Config, name: str, *, only_look: bool = False) -> Play:
    """Rounds that are measured, as in the paper every one is; or only FedPOHCS's look at the candidates, not measured."""
    arm = fig2.build(config)[name]
    algorithm = arm.method(arm.federation)
    if only_look:
        algorithm = algorithm._replace(exchanges=algorithm.exchanges[:1])
    return fused("vmap")(
        algorithm, arm.federation, arm.evaluation(algorithm, arm.federation), 1_000 if only_look else 1
    )


def timed(function: Callable, *args: Any) -> tuple[Any, float]:
    before = time.perf_counter()
    result = jax.block_until_ready(function(*args))
    return result, time.perf_counter() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    args = parse(parser, rounds=1)
    rounds, config = (
        args.rounds,
        replace(fig2.Config(), eval_every=1, fedavg_learning_rate=1e-3, **SMALLEST if args.smallest else {}),
    )
    plays = {FEDPOHCS: build(config, FEDPOHCS), FEDAVG: build(config, FEDAVG)}
    look = build(config, FEDPOHCS, only_look=True)
    states = {name: play.init([0])[0] for name, play in plays.items()}
    took: dict[str, list[float]] = {name: [] for name in (*plays, "the look alone")}
    for number in range(rounds + 1):
        for name, play in plays.items():
            (states[name], _), seconds = timed(play.advance, states[name], number, 1)
            took[name].append(seconds)
        took["the look alone"].append(timed(look.advance, states[FEDPOHCS], number, 1)[1])
    median = {name: statistics.median(seconds[1:]) for name, seconds in took.items()}  # the first compiles
    for name, seconds in took.items():
        print(f"{name:>15}: {median[name]:.3f} s ({' '.join(f'{t:.2f}' for t in seconds[1:])})")
    met = "met" if median[FEDPOHCS] <= AIM else "missed"
    print(f"FedPOHCS round {median[FEDPOHCS]:.2f} s (aim at most {AIM:g} s: {met})")
    share = median["the look alone"] / median[FEDPOHCS]
    print(f"metric phase {share:.1%} of it (aim under {SHARE:.0%}: {'met' if share < SHARE else 'missed'})")


if __name__ == "__main__":
    main()
