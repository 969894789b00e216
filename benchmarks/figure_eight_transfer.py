"""Does a policy learnt in the array simulation drive as well in SUMO? Trains there, evaluates the same parameters in both.

python benchmarks/figure_eight_transfer.py [--epochs 150] [--seeds 2] [--repetitions 5]
"""

import argparse
from dataclasses import replace

import jax
import numpy as np
from arguments import parse

from fedrl.algorithms.fmarl import fmarl
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024 import _references as references


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--length", type=int, default=eight.Config.length, help="steps of an epoch")
    parser.add_argument("--minibatch", type=int, default=eight.Config.minibatch, help="steps a client learns from")
    args = parse(parser, epochs=1, seeds=1, repetitions=1, length=10, minibatch=5)
    config = eight.Config(
        epochs=args.epochs, repetitions=args.repetitions, length=args.length, minibatch=args.minibatch
    )
    arm = eight.arm(config, fmarl(eight.learner(config), tau=1))
    algorithm = arm.method(arm.federation)
    play = fused("vmap")(algorithm, arm.federation, arm.evaluation(algorithm, arm.federation), arm.rounds)
    state, _ = play.init(range(args.seeds))
    for first in range(0, arm.rounds, play.most):
        state, _ = play.advance(state, first, min(play.most, arm.rounds - first))
    print(f"{args.epochs} epochs, {args.seeds} seeds, {args.repetitions} test epochs each; mean speed in m/s")
    report("arrays", play.evaluate(state))
    real = eight.arm(replace(config, simulator="sumo"), arm.method)
    same = real.method(real.federation)
    sumo = one_at_a_time()(same, real.federation, real.evaluation(same, real.federation), 1)
    report("SUMO", sumo.evaluate(state))
    sumo.close()
    for name, speed in references.figure_eight(config.length, config.acceleration).items():
        print(f"{name:>20}: {speed:.2f}")


def report(name: str, metrics: dict) -> None:
    by_seed = eight.SPEED * np.asarray(jax.device_get(metrics["measure/return"]))
    print(f"{name:>20}: {by_seed.mean():.2f} ({', '.join(f'{speed:.2f}' for speed in by_seed)})")


if __name__ == "__main__":
    main()
