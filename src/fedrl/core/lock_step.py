"""An exchange in lock step: clients share one environment, or send their directions to neighbours before every step.

    each starts -> all act -> each learns a direction -> neighbours mix them -> each applies its own -> ... -> each finishes

(xu2024, Algorithm 2.) One client's steps are those of `client.py`, in another order; `CohortLoops` says how an engine
applies them to a cohort.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.core.admission import ExchangeResult, all_finite
from fedrl.core.client import WorkResult, apply, client_key, estimate, finish, message, start, step_key
from fedrl.core.round import Compile, WorkRequest
from fedrl.faults import FaultCode
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Exchange, Mode

OfClient = Callable[[Any, Any], Any]  # (what all clients have in common, one client's row) -> result
OfCohort = Callable[[Any, Any], Any]  # (what all clients have in common, stack of rows) -> stack of results
OnHost = Callable[[Any, Any, Array], tuple[Any, Array]]  # the same with `valid` [c]: -> stack of results, valid


class CohortLoops(NamedTuple):
    """How an engine turns functions of one client into functions of a cohort."""

    each: Callable[[OfClient], OfCohort]
    compile: Compile  # for functions of a whole cohort
    repeat: Callable[[int, Callable[[Array, Any], Any], Any], Any]  # (count, (y, carry) -> carry, carry) -> carry
    on_host: Callable[[OfClient], OnHost] | None = None  # for what cannot be compiled; clients that fail become invalid


def needs_lock_step(exchange: Exchange) -> bool:
    return exchange.mix is not None or exchange.local.mode.shared_env


def lock_step(exchange: Exchange, loops: CohortLoops) -> Callable[[WorkRequest], ExchangeResult]:
    """The clients' part of `exchange`.

    A client that has finished its tau_i steps contributes a zero direction but still acts and applies the mixed direction.
    A client whose direction or state stops being finite keeps the state before that step, contributes zeros from then on,
    and is reported as a fault at the end.
    """
    update = exchange.local
    if update.mode is Mode.PYTHON:
        raise ValueError(
            f"exchange {exchange.name!r}: clients that step together need a learner that JAX can compile; "
            "this one learns in Python, so drop `mix` and shared environments"
        )
    begin, learn, move, conclude = (loops.each(function) for function in _client_steps(exchange))
    act = _act(exchange, loops)
    mix = loops.compile(exchange.mix) if exchange.mix else None

    def work(request: WorkRequest) -> ExchangeResult:
        clients, cohort, key = request.clients, request.cohort, request.key
        local, steps = begin((request.server, key), clients)

        def step(y: Array, carry: tuple[Tree, Tree, Array]) -> tuple[Tree, Tree, Array]:
            local, shared_state, valid = carry
            trajectory, shared_state, valid = act(local, clients, shared_state, key, y, valid)
            direction, local, valid = learn((key, y), (local, trajectory, clients, steps, valid))
            direction = mix(direction, cohort) if mix else direction
            local, valid = move(y, (local, direction, clients, steps, valid))
            return local, shared_state, valid

        carry = local, request.shared_state, cohort.present
        local, shared_state, valid = loops.repeat(update.local_steps, step, carry)
        slots = jnp.arange(cohort.ids.shape[0], dtype=jnp.int32)
        result = conclude((cohort, key), (local, clients, slots))
        codes = jnp.where(valid, jnp.int32(FaultCode.FINE), jnp.int32(FaultCode.NOT_FINITE))
        return ExchangeResult(clients, result, shared_state, codes)

    return work


def _client_steps(exchange: Exchange) -> tuple[OfClient, OfClient, OfClient, OfClient]:
    """Start, learn, apply and finish of one client."""
    update = exchange.local

    def begin(common: Any, client: Client) -> tuple[Tree, Array]:
        server, key = common
        received = message(exchange, server, client)
        local, steps = start(update, received, client, client_key(key, client))
        return local, jnp.asarray(steps, jnp.int32)

    def learn(common: Any, row: Any) -> tuple[Tree, Tree, Array]:
        (key, y), (local, trajectory, client, steps, valid) = common, row
        direction, after = estimate(update, local, trajectory, client, _step_key(key, client, y))
        valid &= (y >= steps) | all_finite((direction, after))
        busy = valid & (y < steps)
        return trees.where(busy, direction, trees.zeros_like(direction)), trees.where(busy, after, local), valid

    def move(y: Array, row: Any) -> tuple[Tree, Array]:
        local, direction, client, steps, valid = row
        after = apply(update, local, direction, client)
        after = after if exchange.mix else trees.where(y < steps, after, local)
        valid &= all_finite(after)
        return trees.where(valid, after, local), valid

    def conclude(common: Any, row: Any) -> WorkResult:
        (cohort, key), (local, client, slot) = common, row
        return finish(exchange, local, client, cohort, slot, key)

    return begin, learn, move, conclude


# (stack of local states, clients, shared state, key, y, valid) -> stack of trajectories, shared state, valid
Act = Callable[[Tree, Client, Tree, Key, Array, Array], tuple[Tree, Tree, Array]]


def _act(exchange: Exchange, loops: CohortLoops) -> Act:
    """All clients act at once if they share an environment, else one by one."""
    update = exchange.local
    if update.mode.shared_env:
        sample = loops.compile(update.shared_sample) if update.mode.compiled else update.shared_sample
        return lambda local, clients, shared_state, key, y, valid: (
            *sample(local, clients, shared_state, keys.of(key, "scene", y)),
            valid,
        )

    def alone(common: Any, row: Any) -> Tree:
        (key, y), (local, client) = common, row
        return update.own_sample(local, client, _step_key(key, client, y))

    if update.mode.compiled:
        all_alone = loops.each(alone)
        return lambda local, clients, shared_state, key, y, valid: (
            all_alone((key, y), (local, clients)),
            shared_state,
            valid,
        )
    if loops.on_host is None:
        raise ValueError(f"exchange {exchange.name!r}: this engine cannot run simulators; use engine=processes()")
    in_turn = loops.on_host(alone)

    def act(
        local: Tree, clients: Client, shared_state: Tree, key: Key, y: Array, valid: Array
    ) -> tuple[Tree, Tree, Array]:
        trajectory, valid = in_turn((key, y), (local, clients), valid)
        return trajectory, shared_state, valid

    return act


def _step_key(key: Key, client: Client, y: Array) -> Key:
    return step_key(client_key(key, client), y)
