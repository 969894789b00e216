"""How many local updates each client makes in a period: tau_i of variation-aware periodic averaging (Xu et al. 2024, §IV-A).

A pace is `(clients, tau) -> steps_of(client, key)`, or None where all make tau.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.arguments import checked
from fedrl.keys import Key
from fedrl.types import Client

StepsOf = Callable[[Client, Key], Array]
StepCounts = Callable[[int, int], StepsOf]


@checked
def given(steps: Sequence[int]) -> StepCounts:
    """tau_i by client id."""

    def build(clients: int, tau: int) -> StepsOf:
        if len(steps) != clients or min(steps) < 1 or max(steps) > tau:
            raise ValueError(
                f"wanted {clients} numbers of local updates between 1 and tau={tau}, one a client, got {tuple(steps)}"
            )
        table = jnp.asarray(steps, jnp.int32)
        return lambda client, key: table[client.id]

    return build


@checked
def by_step_time(seconds: Sequence[float]) -> StepCounts:
    """tau_i = floor(tau E[x_1] / E[x_i]) from the mean seconds E[x_i] a client needs for one step, x_1 the fastest (Eq. 6).

    Who does not finish one update in the period has none to send; the paper leaves such agents out, and so does an error.
    """

    def build(clients: int, tau: int) -> StepsOf:
        times = np.asarray(seconds, np.float64)
        if times.shape != (clients,) or not np.all(times > 0):
            raise ValueError(f"wanted {clients} positive step times, one a client, got {tuple(seconds)}")
        steps = np.floor(tau * times.min() / times + 1e-9).astype(int)
        if slow := [int(i) for i in np.flatnonzero(steps < 1)]:
            raise ValueError(
                f"clients {slow} finish no update in a period of tau={tau}; raise tau or leave them out of the federation"
            )
        return given([int(n) for n in steps])(clients, tau)

    return build


@checked
def drawn(low: int, high: int | None = None) -> StepCounts:
    """tau_i uniform in {low, ..., high}, anew every period; `high` is tau if not said."""

    def build(clients: int, tau: int) -> StepsOf:
        most = tau if high is None else high
        if not 1 <= low <= most <= tau:
            raise ValueError(f"wanted 1 <= low <= high <= tau={tau}, got {low} and {most}")
        return lambda client, key: jax.random.randint(key, (), low, most + 1, jnp.int32)

    return build
