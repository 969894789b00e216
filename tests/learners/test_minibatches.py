"""Minibatch descent, its order read off the result: each step appends a digit to the parameter."""

import jax
import jax.numpy as jnp
import optax
from jax import Array

from fedrl.keys import Key
from fedrl.learners.minibatches import descend


def appends(p, rows):
    """Of gradient -9 p - sum(rows), so that a step of size one makes 10 p + sum(rows) of p."""
    return -4.5 * p * p - jnp.sum(rows) * p


def digits(seeds: int, *, epochs: int, minibatch: int) -> list[str]:
    """What the rows 1, 2 and 3 leave behind, for so many keys."""

    def run(key: Key) -> Array:
        rows = jnp.asarray([1.0, 2.0, 3.0])
        return descend(
            appends, jnp.zeros(()), optax.EmptyState(), rows, key,
            optimizer=optax.identity(), learning_rate=1.0, epochs=epochs, minibatch=minibatch,
        )[0]  # fmt: skip

    return [str(int(end)) for end in jax.vmap(run)(jax.random.split(jax.random.key(0), seeds))]


def test_every_epoch_has_an_order_of_its_own():
    """Of 20 pairs of epochs over three rows, all in the same order in both by chance: one in 6^20."""
    found = digits(20, epochs=2, minibatch=1)
    assert all(sorted(both[:3]) == sorted(both[3:]) == ["1", "2", "3"] for both in found)
    assert any(both[:3] != both[3:] for both in found)
    assert len({both[:3] for both in found}) > 1  # and every key


def test_what_does_not_fill_a_minibatch_waits():
    """Three rows, two at a time: one step an epoch, on the sum of two different rows."""
    found = digits(10, epochs=2, minibatch=2)
    assert all(len(both) == 2 and set(both) <= set("345") for both in found)
    assert len(set("".join(found))) == 3  # nobody always waits


def test_a_minibatch_larger_than_the_data_is_all_of_it():
    assert digits(1, epochs=3, minibatch=64) == ["666"]


def test_the_rate_scales_the_update():
    """From p = 1 with rows (2, 4): p - rate * gradient, the gradient being -9 - 6."""
    end, _ = descend(
        appends, jnp.ones(()), optax.EmptyState(), jnp.asarray([2.0, 4.0]), jax.random.key(0),
        optimizer=optax.identity(), learning_rate=0.1, epochs=1, minibatch=2,
    )  # fmt: skip
    assert float(end) == 2.5
