"""The cost of a run and its value per unit of cost: `xu2024` Eq. (7), (13), (27) and Table IV."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Overheads(NamedTuple):
    """How often each resource is used, or as prices, the cost of one use. Table IV's prices are `TABLE_IV_PRICES`."""

    C1: float  # an agent sends its gradients to the virtual agent
    C2: float  # an agent makes a local update
    W1: float  # an agent sends its gradients to one neighbour, in one interaction
    W2: float  # an agent computes with what one neighbour sent


TABLE_IV_PRICES = Overheads(C1=1.0, C2=1e-4, W1=1e-3, W2=1e-4)


def overheads(m: int, K: int, tau: int, tau_i: Sequence[int] | None = None, links: int = 0, E: int = 0) -> Overheads:
    """The counts of m agents in K = UT/P iterations; tau_i = None: tau for everyone, as without variation.

    Eq. (27) pays W_2, "to perform a local interaction", once per neighbour, and so does Table IV. All agents interact in
    all K iterations, also those past their tau_i.
    """
    updates = [tau] * m if tau_i is None else list(tau_i)
    if K % tau:
        raise ValueError(f"K = {K} iterations are not whole periods of tau = {tau}; choose K divisible by tau")
    if len(updates) != m:
        raise ValueError(f"tau_i has {len(updates)} entries for m = {m} agents; give one for each")
    if not all(1 <= y <= tau for y in updates):
        raise ValueError(f"tau_i must lie in 1..tau = 1..{tau}, got {updates}; raise tau or lower them")
    periods, exchanged = K // tau, 2 * links * E * K
    return Overheads(m * periods, sum(updates) * periods, exchanged, exchanged)


def psi_0(spent: Overheads, price: Overheads) -> float:
    """The resource cost, Eq. (7), and Eq. (27) where agents interact."""
    return sum(count * cost for count, cost in zip(spent, price, strict=True))


def utility(psi_2: Any, psi_1: Any, psi_0: Any) -> Any:
    """(psi_2 - psi_1) / psi_0, Eq. (13), of numbers or arrays: the fall of the squared gradient norm per unit of cost."""
    return (psi_2 - psi_1) / psi_0


def normalised(utilities: Sequence[float]) -> np.ndarray:
    """Between 0 for the least and 1 for the greatest: Table IV's last column, see `TABLE_IV_PSI_2`."""
    u = np.asarray(utilities, float)
    if u.size < 2 or u.max() == u.min():
        raise ValueError(f"needs at least two different utilities to place them between 0 and 1, got {u}; add a method")
    scaled: np.ndarray = (u - u.min()) / (u.max() - u.min())
    return scaled


def spread(total: int, m: int, tau: int) -> tuple[int, ...]:
    """m numbers of local updates that sum to `total`: evenly spaced with tau the greatest, rounded by largest remainder."""
    if m < 2 or not m * (tau + 1) <= 2 * total <= 2 * m * tau:
        raise ValueError(
            f"{m} evenly spaced numbers in 1..{tau} with {tau} the greatest cannot sum to {total}; "
            f"choose at least 2 agents and a total from {m * (tau + 1) / 2:g} to {m * tau}"
        )
    even = tau - 2.0 * (m * tau - total) / (m * (m - 1)) * np.arange(m - 1, -1, -1)
    whole = np.floor(even + 1e-9).astype(int)
    whole[np.argsort(whole - even, kind="stable")[: total - whole.sum()]] += 1
    return tuple(whole.tolist())


class Row(NamedTuple):
    """A row of Table IV: the settings, and the two results as printed."""

    method: str
    tau: int
    tau_i: tuple[int, ...]
    lam: float | None  # the decay constant
    links: int
    E: int
    gradient_norm: float  # the measured mean of ||grad F||^2, which stands for psi_1
    utility: float  # normalised


# The computation column gives only the sum of the seven tau_i: 63, 81, 95. Evenly spaced below 15, they are as here;
# 3, 5, ..., 15 for "1~15" needs no rounding. The paper says nu = 8 for "1~15", but the column gives nu = 9.
FROM_1 = spread(63, 7, 15)  # 3, 5, 7, 9, 11, 13, 15
FROM_5 = spread(81, 7, 15)  # 8, 9, 10, 12, 13, 14, 15
FROM_10 = spread(95, 7, 15)  # 12, 13, 13, 14, 14, 14, 15
ALL_1, ALL_10, ALL_15 = (1,) * 7, (10,) * 7, (15,) * 7

TABLE_IV = (
    Row("FIRL", 1, ALL_1, None, 0, 0, 1.5590, 0.0),
    Row("FIRL", 10, ALL_10, None, 0, 0, 6.3421, 0.5734),
    Row("FIRL", 15, ALL_15, None, 0, 0, 9.6069, 0.7809),
    Row("FIRL", 15, FROM_10, None, 0, 0, 10.1892, 0.7601),
    Row("FIRL", 15, FROM_5, None, 0, 0, 8.7182, 0.8130),
    Row("FIRL", 15, FROM_1, None, 0, 0, 7.6476, 0.8516),
    Row("FIRL_D", 15, FROM_1, 0.98, 0, 0, 7.2782, 0.8649),
    Row("FIRL_D", 15, FROM_1, 0.95, 0, 0, 7.2537, 0.8657),
    Row("FIRL_D", 15, FROM_1, 0.92, 0, 0, 3.5090, 1.0),
    Row("FIRL_C", 15, ALL_15, None, 13, 1, 3.6188, 0.9336),
    Row("FIRL_C", 15, ALL_15, None, 16, 1, 2.1648, 0.9688),
    Row("FIRL_C", 15, ALL_15, None, 13, 2, 2.8746, 0.9023),
    Row("FIRL_C", 15, FROM_1, None, 13, 1, 3.6072, 0.9346),
)
TABLE_IV_M, TABLE_IV_K = 7, 3000

# Not printed, found by arithmetic: with it `normalised` gives every digit of the last column in all 13 rows; so does any
# value between 33.5330 and 33.5359, and none outside.
TABLE_IV_PSI_2 = 33.534
