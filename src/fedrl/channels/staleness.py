"""How much a late answer counts: factors of the weights of clients that answer the message of an earlier round.

They are the functions s(t - tau) of asynchronous federated optimisation (FedAsync, Xie, Koyejo & Gupta 2019, §5.2), where
t - tau = 0, 1, 2, … is the staleness in rounds, and s(0) = 1. A function of your own is as good: from the staleness of all
clients of the cohort [c] to their factors [c], float32. A client whose factor is not a finite number above 0 does not count.

Unlike the paper, whose server moves by alpha s(t - tau) towards one client, the weights of all who count in an exchange
are renormalised (`core/admission.py`): where all are equally late, nothing is discounted.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from fedrl.arguments import at_least, checked

Discount = Callable[[Array], Array]  # staleness [c] int32 -> factors [c] float32


def inverse(staleness: Array) -> Array:
    """1 / (1 + s)."""
    return 1.0 / (1.0 + _float(staleness))


@checked
def polynomial(power: float) -> Discount:
    """(1 + s)^-power: 0 discounts nothing, 1 is `inverse`."""
    at_least(0, "0 discounts nothing", power=power)
    return lambda staleness: (1.0 + _float(staleness)) ** -power


@checked
def hinge(a: float, b: float) -> Discount:
    """1 as long as s <= b, then 1 / (1 + a (s - b)): b = 0 and a = 1 is `inverse`."""
    at_least(0, "0 discounts nothing", a=a)
    at_least(0, "so many rounds are not discounted", b=b)
    return lambda staleness: 1.0 / (1.0 + a * jnp.maximum(_float(staleness) - b, 0.0))


def _float(staleness: Array) -> Array:
    return jnp.asarray(staleness).astype(jnp.float32)
