"""PreferencePartition: clients of equal size who prefer different categories of tasks (fedagent, Algorithm 2).

A `Mix` draws one client's category shares q around the pool's shares p; omega says how far:

- `gaussian_logits`, Algorithm 2 as printed: softmax of N(log(p / (1 - p)), omega^2). Its middle is not p but p / (1 - p)
  normalised, so that large categories grow even at omega = 0: p = (0.5, 0.3, 0.2) becomes (0.60, 0.26, 0.15).
- `gaussian_logs`, the text of section 3.3 ("to the log-probabilities"): softmax of N(log p, omega^2), whose middle is p.
- `dirichlet`, the released code: Dirichlet(pi (1 - omega) / omega), pi = p smoothed by 0.01, mean pi. Unlike that code
  omega is not clipped and no category is thinned out; to get that, thin out the tasks first.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrl.arguments import checked
from fedrl.llm.partitions.checks import (
    Partition,
    PartitionError,
    check_counts,
    check_dispersion,
    check_enough,
    labels_of,
)
from fedrl.llm.randomness import generator_at

Mix = Callable[[np.ndarray, float, np.random.Generator], np.ndarray]  # (p, omega, rng) -> q, both [categories]

SMOOTHING = 0.01  # of p, in the released code


def gaussian_logits(p: np.ndarray, omega: float, rng: np.random.Generator) -> np.ndarray:
    """Steps 1 and 3 of Algorithm 2, any omega >= 0. A single category gets everything."""
    check_dispersion("omega", omega, 0.0, closed=True)
    return np.ones(1) if len(p) == 1 else _softmax(rng.normal(np.log(p / (1 - p)), omega))


def gaussian_logs(p: np.ndarray, omega: float, rng: np.random.Generator) -> np.ndarray:
    """As section 3.3 words it, any omega >= 0."""
    check_dispersion("omega", omega, 0.0, closed=True)
    return _softmax(rng.normal(np.log(p), omega))


def dirichlet(p: np.ndarray, omega: float, rng: np.random.Generator) -> np.ndarray:
    """As in the released code, 0 < omega < 1."""
    check_dispersion("omega", omega, 0.0, 1.0)
    pi = (p + SMOOTHING) / (1 + SMOOTHING * len(p))
    return rng.dirichlet(pi * (1 - omega) / omega)


@checked
def preference(
    categories: Sequence[Any] | np.ndarray,
    clients: int,
    tasks_each: int,
    omega: float,
    seed: int,
    *,
    mix: Mix = gaussian_logits,
    tasks: int | None = None,
) -> Partition:
    """Algorithm 2: client k has L = `tasks_each` tasks with category counts from Multinomial(L, q), q from `mix`.

    `categories` has a name or whole number for each task. A client's draws depend only on the seed and k, so adding
    clients changes no other client's tasks.
    """
    labels = labels_of("categories", categories, tasks)
    if labels.dtype.kind not in "iuUS":
        raise PartitionError(
            f"categories must be all names or all whole numbers, got an array of {labels.dtype}; name every task's category"
        )
    check_counts(clients=clients, tasks_each=tasks_each)
    check_enough(len(labels), tasks_each)
    kinds, room = np.unique(labels, return_counts=True)
    pools = [np.flatnonzero(labels == kind) for kind in kinds]
    partition = []
    for k in range(clients):
        rng = generator_at(seed, "preference", k)
        q = mix(room / len(labels), omega, rng)
        counts = capacity_fix(rng.multinomial(tasks_each, q), room, q, rng)
        parts = [rng.choice(pool, size=count, replace=False) for pool, count in zip(pools, counts, strict=True)]
        partition.append(np.sort(np.concatenate(parts)))
    return partition


def capacity_fix(counts: np.ndarray, room: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Step 5: the excess over a category's size goes to those with room, by Multinomial(q among them).

    The redistributed tasks may overflow in turn, which the paper does not mention: the step is repeated until none do; each
    time at least one more category is full. If q is zero for all categories with room, they share in proportion to room.
    """
    while (leftover := np.maximum(counts - room, 0).sum()) > 0:
        counts = np.minimum(counts, room)
        free = room - counts
        weight = np.where(free > 0, q, 0.0)
        weight = weight if weight.sum() > 0 else free.astype(float)
        counts = counts + rng.multinomial(leftover, weight / weight.sum())
    return counts


def _softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max())
    shares: np.ndarray = powers / powers.sum()
    return shares
