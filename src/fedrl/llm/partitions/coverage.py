"""CoveragePartition: clients with few and with many tasks, at a fixed mean and overlap (fedagent, Algorithm 3)."""

import math

import numpy as np

from fedrl.arguments import checked
from fedrl.llm.partitions.checks import Partition, PartitionError, check_counts, check_dispersion
from fedrl.llm.partitions.sizes import Bounds, beta_sizes, check_bounds, round_to_sum
from fedrl.llm.randomness import generator_at

RELEASED = Bounds(100, 500, 1000)  # of the released code; the paper states none


@checked
def coverage(
    tasks: int,
    clients: int,
    xi: float,
    seed: int,
    *,
    bounds: Bounds | tuple[int, float, int] = RELEASED,
    r: float | None = None,
    what: str = "tasks",
) -> Partition:
    """Algorithm 3: sizes from a Beta of mean L_avg, wider for a smaller xi; each task goes to floor(r) or ceil(r) clients.

    r = None is the released code's clients L_avg / tasks, for which the mean size is L_avg (up to rounding of the sum);
    another r makes it r tasks / clients. The H tasks with one more copy (step 8: "any") are drawn. `what` is the name of
    the tasks in errors.
    """
    check_counts(clients=clients, **{what: tasks})
    check_dispersion("xi", xi, 0.0)
    bounds = Bounds(*bounds)
    T = assignments(tasks, clients, bounds, r, what)
    u = beta_sizes(clients, bounds, xi, T, generator_at(seed, "coverage", "sizes"))
    n = round_to_sum(u, T, bounds.L_min, bounds.L_max)
    q = np.full(tasks, T // tasks)
    q[generator_at(seed, "coverage", "copies").choice(tasks, size=T % tasks, replace=False)] += 1
    return [np.flatnonzero(row) for row in place(n, q, generator_at(seed, "coverage", "place"))]


def assignments(tasks: int, clients: int, bounds: Bounds, r: float | None, what: str = "tasks") -> int:
    """T of steps 1 and 2, refused where the bounds cannot be met. r tasks is rounded to 1e-9 before the floor."""
    check_bounds(bounds)
    L_min, L_avg, L_max = bounds
    if L_max > tasks:
        raise PartitionError(
            f"bounds allow a client L_max = {L_max} different {what} of {tasks}; lower L_max to at most {tasks} "
            "or bring more"
        )
    if r is None:
        return math.floor(round(clients * L_avg, 9))
    check_dispersion("r", r, 0.0)
    T = math.floor(round(r * tasks, 9))
    if not clients * L_min <= T <= clients * L_max:
        raise PartitionError(
            f"r = {r:g} makes T = {T} assignments of {tasks} {what}, but {clients} clients with {L_min} to {L_max} each "
            f"take {clients * L_min} to {clients * L_max}; choose r between {clients * L_min / tasks:g} and "
            f"{clients * L_max / tasks:g} or move the bounds"
        )
    return T


def place(n: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Steps 9 to 13: who holds what, [clients, tasks]; client k has exactly n_k tasks, task i exactly q_i clients.

    The q_i clients are drawn one after the other, each with Pr(k) proportional to rem_k among those not yet chosen: they
    come in the order of independent exponential times of rate rem_k.

    Unlike the paper, where a task near the end may find fewer than q_i clients with room, a client that needs every task
    still left takes this one for certain. Then it never comes to that: no client needs more than the N' tasks left, so
    with a = (sum of their q) / N' at most floor(a) <= q_i clients need them all and at least ceil(a) >= q_i have room,
    the q of the tasks being floor(a) or ceil(a). Expects n_k <= tasks, q that differ by at most one, and equal sums.
    """
    assigned = np.zeros((len(n), len(q)), bool)
    rem = n.copy()
    for i, copies in enumerate(q):
        times = np.divide(rng.exponential(size=len(n)), rem, out=np.full(len(n), np.inf), where=rem > 0)
        times[rem == len(q) - i] = 0.0
        takers = np.argsort(times, kind="stable")[:copies]
        assigned[takers, i] = True
        rem[takers] -= 1
    return assigned
