"""Decay-based local updates (Xu et al. 2024, §VI-A): later gradients of a period count less, because they vary more."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.arguments import checked
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, LocalUpdate, Metrics

Decay = Callable[[Array], Array]  # y, the local steps taken in this period (int32) -> D(y); D(0) = 1


COUNTS = ("learnt", "applied")  # what a client reports about its steps; reveals nothing about its data


class Counted(NamedTuple):
    """A client in the middle of its local steps, and what it has done so far."""

    local: Tree
    learnt: Array  # y: mini-batches it learnt from
    applied: Array  # directions it applied; with neighbours, also in steps in which it learnt nothing

    @property
    def message(self) -> Tree:
        return self.local.message


def constant(y: Array) -> Array:
    return jnp.ones_like(y, jnp.float32)


@checked
def exponential(lam: float) -> Decay:
    """D(y) = lam^(y/2), 0 < lam <= 1 (Eq. 21).

    The exponent is garbled in the text we have (it reads y/tau); the proof of Corollary 1 sums D(y)^2 to
    Z(j) = (1 - lam^j)/(1 - lam), which gives y/2.
    """
    if not 0.0 < lam <= 1.0:
        raise ValueError(f"a decay constant lies in (0, 1], got {lam}; the paper uses 0.92 to 0.98")
    return lambda y: jnp.float32(lam) ** (0.5 * y.astype(jnp.float32))


def counted(update: LocalUpdate, decay: Decay = constant) -> LocalUpdate:
    """`update` that counts its steps, the direction at step y weighted by D(y) (Eq. 18).

    It reports the two `COUNTS` in addition to the metrics of `update`.
    """

    def start(message: Tree, client: Client, key: Key) -> Counted:
        return Counted(update.start(message, client, key), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def sample(local: Counted, client: Client, *rest: Tree) -> Tree:
        return update.sample(local.local, client, *rest)

    def estimate(local: Counted, trajectory: Tree, client: Client, key: Key) -> tuple[Tree, Counted]:
        direction, after = update.estimate(local.local, trajectory, client, key)
        weight = decay(local.learnt)
        weighted = jax.tree.map(lambda x: weight.astype(x.dtype) * x, direction)
        return weighted, local._replace(local=after, learnt=local.learnt + 1)

    def apply(local: Counted, direction: Tree, client: Client) -> Counted:
        return local._replace(local=update.apply(local.local, direction, client), applied=local.applied + 1)

    def metrics(local: Counted, client: Client) -> Metrics:
        counts = (n.astype(jnp.float32) for n in (local.learnt, local.applied))
        return update.metrics(local.local, client) | dict(zip(COUNTS, counts, strict=True))

    return update._replace(
        start=start,
        sample=sample,
        estimate=estimate,
        apply=apply,
        finish=lambda local, client: update.finish(local.local, client),
        metrics=metrics,
    )
