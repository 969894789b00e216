"""Which clients count in an exchange: the rule of `faults.py` on arrays, part of every engine.

An upload that does not count becomes zeros before anything is computed from it (0 * NaN is NaN), so only finite numbers
are ever averaged. If all clients count, every bit stays as it was.
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


class Late(NamedTuple):
    """How old the answers of a cohort are."""

    staleness: Array  # [c] int32: how many rounds ago the message was sent that the client's result answers
    discount: Array  # [c] float32: the factor of the client's weight (`channels.staleness`); at 0 it does not count


class ExchangeResult(NamedTuple):
    """What an engine returns for one exchange: stacks, in ascending client id."""

    clients: Client  # the cohort
    work: WorkResult
    shared_state: Tree  # of the environment that clients share, if they share one
    fault_codes: Array  # [c] int32 (`FaultCode`): faults that the engine itself noticed
    late: Late | None = None  # None: all answers are to this round's message. In every round of an exchange or in none,
    #                           because the metrics of rounds are stacked; never in an evaluation


class Admission(NamedTuple):
    """Which of a cohort's results count."""

    uploads: Tree  # zeros for clients that do not count
    cohort: Cohort  # `present`: the clients that count; their weights sum to one
    env_steps: Array
    fault_codes: Array  # [c] int32 (`FaultCode`)
    in_a_row: Array  # [N] consecutive faults of every client in this exchange


def eligible(faults: Faults, chosen: Cohort, in_a_row: dict[str, Array]) -> Cohort:
    """The chosen cohort without clients that have had too many consecutive faults in some exchange."""
    if not faults.leaves_out:
        return chosen
    return _restrict(chosen, chosen.present & ~exhausted(faults, in_a_row)[chosen.ids])


def exhausted(faults: Faults, in_a_row: dict[str, Array]) -> Array:
    """[N] which clients have had too many consecutive faults, in any one exchange, to be asked again."""
    return functools.reduce(jnp.maximum, in_a_row.values()) >= faults.in_a_row


def admit(
    faults: Faults, local: LocalUpdate, chosen: Cohort, cohort: Cohort, result: ExchangeResult, in_a_row: Array
) -> Admission:
    """Which results count, and why the others do not. `cohort` is `chosen` without clients that are no longer asked.

    A client with several faults gets the code of the first.
    """
    uploads, memory, env_steps, _ = result.work
    checks = [
        (FaultCode.NOT_FINITE, finite(uploads, cohort.ids)),
        (FaultCode.MEMORY, finite(memory, cohort.ids)),
        (FaultCode.STEPS, _possible_steps(local, env_steps)),
    ]
    if faults.largest_norm is not None:
        moved = local.moved(uploads) if local.moved else uploads
        checks.append((FaultCode.NORM, _squared_norms(moved, cohort.ids) <= faults.largest_norm**2))
    if local.possible is not None:
        checks.append((FaultCode.IMPOSSIBLE, jax.vmap(local.possible)(uploads, result.clients)))
    if result.late is not None:
        checks.append((FaultCode.LATE, jnp.isfinite(result.late.discount) & (result.late.discount > 0)))
    codes = result.fault_codes
    for code, passed in checks:
        codes = jnp.where((codes == 0) & ~passed, jnp.int32(code), codes)
    fine = codes == 0
    before = in_a_row[cohort.ids]
    consecutive = jnp.where(cohort.present, jnp.where(fine, jnp.zeros_like(before), before + 1), before)
    not_asked = jnp.where(chosen.present, jnp.int32(FaultCode.NOT_ASKED), jnp.int32(0))
    if result.late is not None:
        cohort = cohort._replace(staleness=result.late.staleness)
    admitted = _restrict(cohort, cohort.present & fine, result.late.discount if result.late is not None else None)
    return Admission(
        uploads=jax.tree.map(lambda x: jnp.where(_column(admitted.present, x), x, jnp.zeros_like(x)), uploads),
        cohort=admitted,
        env_steps=jnp.where(admitted.present, env_steps, jnp.zeros_like(env_steps)),
        fault_codes=jnp.where(cohort.present, codes, not_asked),
        in_a_row=in_a_row.at[cohort.ids].set(consecutive),
    )


def finite(stack: Tree, ids: Array) -> Array:
    """[c] `all_finite` of every row."""
    return jax.vmap(all_finite)(stack) if _floats(stack) else jnp.ones(ids.shape, bool)


def all_finite(tree: Tree) -> Array:
    """Whether all floats of one client's tree are finite."""
    fine = jnp.ones((), bool)
    for x in _floats(tree):
        fine &= jnp.all(jnp.isfinite(x))
    return fine


def _squared_norms(stack: Tree, ids: Array) -> Array:
    """[c] squared norm of every row."""
    floats = [x.astype(jnp.float32) for x in _floats(stack)]
    return jax.vmap(trees.squared_norm)(floats) if floats else jnp.zeros(ids.shape)


def _floats(tree: Tree) -> list[Array]:
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]


def _possible_steps(local: LocalUpdate, env_steps: Array) -> Array:
    most = local.local_steps * local.most_env_steps
    return (env_steps >= 0) & (env_steps <= most if most else True)


def _restrict(cohort: Cohort, present: Array, discount: Array | None = None) -> Cohort:
    """`cohort` with only these present, and weights times `discount` renormalised.

    The weights are unchanged if nobody was removed and nobody who is present is discounted.
    """
    weight = cohort.weight if discount is None else cohort.weight * discount
    weight = jnp.where(present, weight, jnp.zeros_like(cohort.weight))
    total = jnp.sum(weight)
    renormalised = weight / jnp.where(total > 0, total, jnp.ones_like(total))
    unchanged = jnp.all(present == cohort.present)
    if discount is not None:
        unchanged &= jnp.all((discount == 1) | ~present)
    return cohort._replace(present=present, weight=jnp.where(unchanged, cohort.weight, renormalised))


def _column(mask: Array, x: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (x.ndim - 1))
