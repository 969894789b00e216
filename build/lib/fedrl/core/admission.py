"""Who counts in an exchange: the rule of `faults.py` as arrays, compiled into every engine between clients and server.

An upload that does not count becomes zeros before anything is computed from it (0 * NaN is NaN), so nothing that is not
finite is ever averaged. Where everybody counts, every bit stays as it was.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import trees
from fedrl.core.client import WorkResult
from fedrl.faults import FaultCode, Faults
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, LocalUpdate


class ExchangeResult(NamedTuple):
    """What an engine brings back from one exchange: stacks, in ascending client id."""

    clients: Client  # who was asked
    work: WorkResult
    shared_state: Tree  # the environment that clients share, where they do
    why: Array  # [c] int32, what the engine itself noticed (`FaultCode`)


class Admitted(NamedTuple):
    uploads: Tree  # zeros for those who do not count
    cohort: Cohort  # `present` says who counts; their weights sum to one
    env_steps: Array
    why: Array  # [c] int32 (`FaultCode`)
    in_a_row: Array  # [N] faults in a row of every client in this exchange


def ask(faults: Faults, drawn: Cohort, in_a_row: dict[str, Array]) -> Cohort:
    """Those drawn, without clients that have had too many faults in a row in some exchange."""
    if not faults.leaves_out:
        return drawn
    return _among(drawn, drawn.present & ~exhausted(faults, in_a_row)[drawn.ids])


def exhausted(faults: Faults, in_a_row: dict[str, Array]) -> Array:
    """[N] who has had too many faults in a row, in one exchange or another, to be asked again."""
    return functools.reduce(jnp.maximum, in_a_row.values()) >= faults.in_a_row


def admit(
    faults: Faults, local: LocalUpdate, drawn: Cohort, asked: Cohort, result: ExchangeResult, in_a_row: Array
) -> Admitted:
    """Which of the answers count, and why the others do not. The first problem found is the one that is reported."""
    uploads, memory, env_steps, _ = result.work
    checks = [
        (FaultCode.NOT_FINITE, finite(uploads, asked.ids)),
        (FaultCode.MEMORY, finite(memory, asked.ids)),
        (FaultCode.STEPS, _steps(local, env_steps)),
    ]
    if faults.largest_norm is not None:
        moved = local.moved(uploads) if local.moved else uploads
        checks.append((FaultCode.NORM, _squares(moved, asked.ids) <= faults.largest_norm**2))
    if local.possible is not None:
        checks.append((FaultCode.IMPOSSIBLE, jax.vmap(local.possible)(uploads, result.clients)))
    why = result.why
    for code, fine in checks:
        why = jnp.where((why == 0) & ~fine, jnp.int32(code), why)
    fine = why == 0
    before = in_a_row[asked.ids]
    counted = jnp.where(asked.present, jnp.where(fine, jnp.zeros_like(before), before + 1), before)
    missing = jnp.where(drawn.present, jnp.int32(FaultCode.NOT_ASKED), jnp.int32(0))
    cohort = _among(asked, asked.present & fine)
    return Admitted(
        uploads=jax.tree.map(lambda x: jnp.where(_column(cohort.present, x), x, jnp.zeros_like(x)), uploads),
        cohort=cohort,
        env_steps=jnp.where(cohort.present, env_steps, jnp.zeros_like(env_steps)),
        why=jnp.where(asked.present, why, missing),
        in_a_row=in_a_row.at[asked.ids].set(counted),
    )


def finite(stack: Tree, ids: Array) -> Array:
    """[c] `all_finite` of every row."""
    return jax.vmap(all_finite)(stack) if _numbers(stack) else jnp.ones(ids.shape, bool)


def all_finite(tree: Tree) -> Array:
    """Whether all numbers of one client's tree are finite."""
    fine = jnp.ones((), bool)
    for x in _numbers(tree):
        fine &= jnp.all(jnp.isfinite(x))
    return fine


def _squares(stack: Tree, ids: Array) -> Array:
    """[c] the squared norm of every row."""
    numbers = [x.astype(jnp.float32) for x in _numbers(stack)]
    return jax.vmap(trees.squared_norm)(numbers) if numbers else jnp.zeros(ids.shape)


def _numbers(tree: Tree) -> list[Array]:
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]


def _steps(local: LocalUpdate, env_steps: Array) -> Array:
    most = local.local_steps * local.most_env_steps
    return (env_steps >= 0) & (env_steps <= most if most else True)


def _among(cohort: Cohort, present: Array) -> Cohort:
    """`cohort` with fewer present; their weights are renormalised, but left as they are if nobody has gone."""
    weight = jnp.where(present, cohort.weight, jnp.zeros_like(cohort.weight))
    total = jnp.sum(weight)
    shared = weight / jnp.where(total > 0, total, jnp.ones_like(total))
    same = jnp.all(present == cohort.present)
    return cohort._replace(present=present, weight=jnp.where(same, cohort.weight, shared))


def _column(mask: Array, x: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (x.ndim - 1))
