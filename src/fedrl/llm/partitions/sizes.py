"""How many tasks each client gets: Beta sizes of a given mean, rounded to a given sum (fedagent, Algorithm 3, 3-6)."""

from typing import NamedTuple

import numpy as np

from fedrl.llm.partitions.checks import PartitionError


class Bounds(NamedTuple):
    """Tasks of one client: the fewest, the mean, the most; (l, c, h) in Algorithm 4."""

    L_min: int
    L_avg: float
    L_max: int


def check_bounds(bounds: Bounds) -> None:
    L_min, L_avg, L_max = bounds
    if L_min != int(L_min) or L_max != int(L_max) or not 0 <= L_min <= L_avg <= L_max:
        raise PartitionError(
            f"bounds need whole L_min and L_max and 0 <= L_min <= L_avg <= L_max, got {L_min}, {L_avg}, {L_max}; "
            "put them in order"
        )


def beta_sizes(clients: int, bounds: Bounds, xi: float, T: int, rng: np.random.Generator) -> np.ndarray:
    """Real sizes u_k of sum T, steps 3 to 5; a larger xi makes them more equal.

    Where L_avg is L_min or L_max the Beta has no width left: x_k is its mean. Scaling to T may push a u_k out of the
    bounds, which `round_to_sum` corrects.
    """
    L_min, L_avg, L_max = bounds
    mu = (L_avg - L_min) / (L_max - L_min) if L_max > L_min else 0.0
    x = rng.beta(mu * xi, (1 - mu) * xi, size=clients) if 0 < mu < 1 else np.full(clients, mu)
    u = L_min + x * (L_max - L_min)
    total = u.sum()
    return u * (T / total) if total > 0 else u


def round_to_sum(u: np.ndarray, T: int, low: int, high: int) -> np.ndarray:
    """RoundToSum of step 6: whole sizes of sum T within low..high by the largest remainder.

    The paper says "with clipping" but not where the clipped part goes. Here u is first moved to the nearest point (in
    squares) of that sum within the bounds: all move by the same amount, those that would leave the bounds stay at them.
    Where nothing is clipped that changes nothing. Equal remainders go to the lower client first. Expects
    len(u) low <= T <= len(u) high.
    """
    turns = np.sort(np.concatenate([low - u, high - u]))  # where a client reaches a bound, as all move together
    sums = np.clip(u + turns[:, None], low, high).sum(axis=1)
    v = np.clip(u + np.interp(T, sums, turns), low, high)
    n: np.ndarray = np.floor(v).astype(np.int64)
    n[np.argsort(n - v, kind="stable")[: T - n.sum()]] += 1
    return n
