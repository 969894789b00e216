"""A full round of 004's Mountain Cars at the paper's size, and the share of it that FedPOHCS's metrics take.

60 clients, 18 candidates with metrics, 6 participants x 5 iterations x 2,048 steps, evaluation of all 60 with 10 episodes.
The authors report about 6 minutes a round on 16 cores.
"""

import statistics
import time
from dataclasses import replace

import jax

from fedrl.engines.fused import fused
from fedrl.recipes.xie2025 import fig2
from fedrl.recipes.xie2025._methods import FEDAVG, FEDPOHCS

ROUNDS = 8
AIM, SHARE = 3.0, 0.10


def seconds_per_round(name: str) -> float:
    """Median over rounds that are measured, as in the paper every one is."""
    arm = fig2.build(replace(fig2.Config(), every=1, fedavg_rate=1e-3))[name]
    algorithm = arm.method(arm.federation)
    play = fused("vmap")(algorithm, arm.federation, arm.measure(algorithm, arm.federation), 1)
    state, _ = jax.block_until_ready(play.init([0]))
    state, _ = jax.block_until_ready(play.advance(state, 0, 1))  # compiles
    took = []
    for number in range(1, ROUNDS + 1):
        before = time.perf_counter()
        state, _ = jax.block_until_ready(play.advance(state, number, 1))
        took.append(time.perf_counter() - before)
    print(f"{name:>10}: {' '.join(f'{t:.2f}' for t in took)} s")
    return statistics.median(took)


def main() -> None:
    pohcs, plain = seconds_per_round(FEDPOHCS), seconds_per_round(FEDAVG)
    print(f"FedPOHCS round {pohcs:.2f} s (aim at most {AIM:g} s: {'met' if pohcs <= AIM else 'missed'})")
    share = (pohcs - plain) / pohcs
    print(
        f"metric phase, as the difference to FedAvg: {share:.1%} (aim under {SHARE:.0%}; selection_cost.py times it alone)"
    )


if __name__ == "__main__":
    main()
