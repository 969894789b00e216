"""Selections that need no reports: everyone, a uniform draw, or a weighted draw."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.arguments import at_least, checked
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.selection.selection import BuildSelection, Selection
from fedrl.types import Cohort, Learner


@checked
def everyone() -> BuildSelection:
    def build(federation: Federation, learner: Learner) -> Selection:
        return Selection(lambda server, key: cohort(federation, jnp.arange(federation.count, dtype=jnp.int32)))

    return build


@checked
def uniform(clients: int) -> BuildSelection:
    """`clients` of them, without replacement, each set equally likely; each counts by its weight q.

    Floyd's algorithm: the cost grows with the square of the cohort and not at all with the population.
    """
    at_least(1, clients=clients)

    def build(federation: Federation, learner: Learner) -> Selection:
        _check(clients, federation)
        return Selection(lambda server, key: cohort(federation, jnp.sort(draw_subset(key, federation.count, clients))))

    return build


@checked
def weighted(clients: int) -> BuildSelection:
    """`clients` of them, without replacement, drawn one after the other in proportion to q; each then has equal weight.

    Gumbel top-k, so the cost per round grows with the population.
    """
    at_least(1, clients=clients)

    def build(federation: Federation, learner: Learner) -> Selection:
        _check(clients, federation)
        if federation.weight is None:
            return uniform(clients)(federation, learner)
        log_weight = jnp.log(federation.weight)

        def choose(server: Any, key: Key) -> Cohort:
            noisy = log_weight + jax.random.gumbel(key, log_weight.shape, log_weight.dtype)
            ids = jnp.sort(jax.lax.top_k(noisy, clients)[1].astype(jnp.int32))
            return cohort(federation, ids)._replace(weight=jnp.full((clients,), 1.0 / clients))

        return Selection(choose)

    return build


def cohort(federation: Federation, ids: Array) -> Cohort:
    """The clients `ids`, all present, with their weights q renormalised to the cohort."""
    weight = federation.weights(ids)
    present = jnp.ones(ids.shape, bool)
    return Cohort(ids, weight / jnp.sum(weight), present, jnp.zeros(ids.shape, jnp.int32))


def draw_subset(key: Key, population: int, size: int) -> Array:
    """A uniform subset of range(population), in no particular order (Floyd's algorithm)."""
    top = jnp.arange(population - size, population, dtype=jnp.int32)
    tried = jax.random.randint(keys.of(key, "subset"), (size,), 0, top + 1)

    def place(i: Array, chosen: Array) -> Array:
        return chosen.at[i].set(jnp.where(jnp.any(chosen == tried[i]), top[i], tried[i]))

    subset: Array = jax.lax.fori_loop(0, size, place, jnp.full((size,), -1, jnp.int32))
    return subset


def _check(clients: int, federation: Federation) -> None:
    if not 1 <= clients <= federation.count:
        raise ValueError(
            f"{clients} clients per round requested, but the federation has {federation.count}; "
            f"choose between 1 and {federation.count}"
        )
