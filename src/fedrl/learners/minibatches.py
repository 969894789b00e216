"""Minibatch descent on one batch of data, inside the compiled program."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array

from fedrl import keys, trees
from fedrl.keys import Key
from fedrl.trees import Tree


def descend(
    loss: Callable[[Tree, Tree], Array],
    params: Tree,
    state: optax.OptState,
    data: Tree,
    key: Key,
    *,
    optimizer: optax.GradientTransformation,
    learning_rate: Array | float,
    epochs: int,
    minibatch: int,
) -> tuple[Tree, optax.OptState]:
    """`epochs` passes over the rows of `data` in a new random order, `minibatch` at a time; a remainder is skipped."""
    count = jax.tree.leaves(data)[0].shape[0]
    size = min(minibatch, count)
    whole = count // size * size

    def step(carry: tuple[Tree, optax.OptState], rows: Tree) -> tuple[tuple[Tree, optax.OptState], None]:
        params, state = carry
        update, state = optimizer.update(jax.grad(loss)(params, rows), state, params)
        return (trees.subtract(params, trees.scale(learning_rate, update)), state), None

    def epoch(number: Array, carry: tuple[Tree, optax.OptState]) -> tuple[Tree, optax.OptState]:
        order = jax.random.permutation(keys.of(key, "epoch", number), count)[:whole]
        rows = jax.tree.map(lambda x: x[order].reshape(-1, size, *x.shape[1:]), data)
        return jax.lax.scan(step, carry, rows)[0]

    after: tuple[Tree, optax.OptState] = jax.lax.fori_loop(0, epochs, epoch, (params, state))
    return after


def rows(tree: Tree) -> Tree:
    """[B, T, ...] as [B * T, ...]."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def mean_square(x: Array) -> Array:
    return jnp.mean(jnp.square(x))
