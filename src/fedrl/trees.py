"""Pytree arithmetic. `stack` means a tree whose leaves have a leading client axis."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Tree = Any
LARGE = 1 << 20  # entries


def add(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.add, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.subtract, a, b)


def scale(factor: float | Array, tree: Tree) -> Tree:
    return jax.tree.map(lambda x: factor * x, tree)


def zeros_like(tree: Tree) -> Tree:
    return jax.tree.map(jnp.zeros_like, tree)


def where(condition: Array, yes: Tree, no: Tree) -> Tree:
    """`yes` where the scalar `condition` holds, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def take(stack: Tree, rows: Array | np.ndarray) -> Tree:
    return jax.tree.map(lambda x: x[rows], stack)


def row(stack: Tree, i: int) -> Tree:
    return jax.tree.map(lambda x: x[i], stack)


@jax.jit
def stacked(items: list[Tree]) -> Tree:
    """One program for all leaves: outside a compiled function, each leaf would be a program of its own."""
    return jax.tree.map(lambda *x: jnp.stack(x), *items)


compiled_row = jax.jit(row)  # one program for all rows and leaves


def unstacked(stack: Tree) -> list[Tree]:
    return [compiled_row(stack, i) for i in range(np.shape(jax.tree.leaves(stack)[0])[0])]


def put(stack: Tree, rows: Array, values: Tree, where: Array) -> Tree:
    """`stack` with `values` written at `rows`, but only where the mask `where` [rows] holds."""

    def one(old: Array, new: Array) -> Array:
        mask = where.reshape(where.shape + (1,) * (new.ndim - 1))
        return old.at[rows].set(jnp.where(mask, new, old[rows]))

    return jax.tree.map(one, stack, values)


def weighted_sum(weight: Array, stack: Tree) -> Tree:
    """Sum over the leading axis of weight[i] * stack[i], in the order of the stack.

    A large leaf becomes rows first: where its last axis is short, XLA's reduction takes up to 300 times as long (jax 0.10).
    """

    def one(x: Array) -> Array:
        rows = x.reshape(x.shape[0], -1) if x.size > LARGE else x
        factors = weight.reshape(weight.shape + (1,) * (rows.ndim - 1)).astype(x.dtype)
        return jnp.sum(factors * rows, axis=0).reshape(x.shape[1:])

    return jax.tree.map(one, stack)


def squared_norm(tree: Tree) -> Array:
    return jnp.asarray(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(tree)))


def nbytes(tree: Tree) -> int:
    """Bytes of the arrays (or their abstract shapes) in `tree`."""
    return sum(x.size * jnp.dtype(x.dtype).itemsize for x in jax.tree.leaves(tree))


def zeros_of(shapes: Tree) -> Tree:
    """Zeros of these abstract shapes (`jax.eval_shape`); random keys are those of seed 0, weak types stay weak."""
    return jax.tree.map(_zeros, shapes)


def _zeros(shape: Any) -> Array:
    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), shape.shape)
    if getattr(shape, "weak_type", False):
        return jnp.full(shape.shape, shape.dtype.type(0).item())
    return jnp.zeros(shape.shape, shape.dtype)
