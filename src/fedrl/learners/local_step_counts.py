"""How many local updates each client makes in a period: tau_i of variation-aware periodic averaging (Xu et al. 2024, §IV-A).

`StepCounts` is `(clients, tau) -> steps_of(client, key)`. A client with tau_i = 0, which then must not depend on `key`, is
left out of the average by `fmarl`.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.arguments import checked
from fedrl.types import StepsOf

StepCounts = Callable[[int, int], StepsOf]


@checked
def fixed_steps(steps: Sequence[int]) -> StepCounts:
    """tau_i by client id; 0 leaves a client out."""

    def build(clients: int, tau: int) -> StepsOf:
        if len(steps) != clients or min(steps) < 0 or not 1 <= max(steps) <= tau:
            raise ValueError(
                f"expected {clients} numbers of local updates between 0 and tau={tau}, one per client and not all 0, "
                f"got {tuple(steps)}"
            )
        table = jnp.asarray(steps, jnp.int32)
        return lambda client, key: table[client.id]

    return build


@checked
def steps_by_time(seconds: Sequence[float]) -> StepCounts:
    """tau_i = floor(tau E[x_1] / E[x_i]) from the mean seconds E[x_i] a client needs for one step, x_1 the fastest (Eq. 6).

    Agents that finish no update in the period have tau_i = 0 and are left out: m < N.
    """

    def build(clients: int, tau: int) -> StepsOf:
        times = np.asarray(seconds, np.float64)
        if times.shape != (clients,) or not np.all(times > 0):
            raise ValueError(f"expected {clients} positive step times, one per client, got {tuple(seconds)}")
        steps = np.floor(tau * times.min() / times + 1e-9).astype(int)
        return fixed_steps([int(n) for n in steps])(clients, tau)

    return build


@checked
def random_steps(low: int, high: int | None = None) -> StepCounts:
    """tau_i uniform in {low, ..., high}, drawn anew in every period; `high` defaults to tau."""

    def build(clients: int, tau: int) -> StepsOf:
        most = tau if high is None else high
        if not 1 <= low <= most <= tau:
            raise ValueError(f"expected 1 <= low <= high <= tau={tau}, got {low} and {most}")
        return lambda client, key: jax.random.randint(key, (), low, most + 1, jnp.int32)

    return build
