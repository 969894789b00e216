"""An exchange in lock step: clients share one environment, or tell their neighbours their directions before every step.

    each starts -> all act -> each learns a direction -> neighbours mix them -> each applies its own -> ... -> each finishes

(xu2024, Algorithm 2.) One client's steps are those of `client.py`, in another order; how they are done to a whole cohort is
the engine's business: `CohortLoops` says how.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.core.admission import ExchangeResult, all_finite
from fedrl.core.client import WorkResult, apply, client_key, estimate, finish, message, start, step_key
from fedrl.core.round import WorkRequest
from fedrl.faults import FaultCode
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Exchange, Mode


class CohortLoops(NamedTuple):
    """From functions of one client to functions of a stack of clients, as an engine does it."""

    each: Callable  # (function of (common, row)) -> function of (common, stack)
    whole: Callable  # (function of stacks) -> the same, compiled
    repeat: Callable  # (count, (y, carry) -> carry, carry) -> carry
    on_host: Callable | None = (
        None  # (function of (common, row)) -> function of (common, stack, sound) -> stack, sound:
    )
    #                                  for what cannot be compiled; clients that fail are not sound any more


def needed(exchange: Exchange) -> bool:
    return exchange.mix is not None or exchange.local.mode.shared_env


def lock_step(exchange: Exchange, loops: CohortLoops) -> Callable[[WorkRequest], ExchangeResult]:
    """The clients' part of `exchange`. A client past its tau_i learns nothing, but keeps acting and hearing its neighbours.

    A client whose direction or parameters stop being finite tells its neighbours zeros from then on, keeps what it had
    before that step, and is a fault at the end.
    """
    update = exchange.local
    if update.mode is Mode.PYTHON:
        raise ValueError(
            f"exchange {exchange.name!r}: clients that step together need a learner that JAX can compile; "
            "this one learns in plain Python, so drop `mix` and shared environments"
        )
    begin, learn, move, conclude = (loops.each(piece) for piece in _pieces(exchange))
    act = _acting(exchange, loops)
    mix = loops.whole(exchange.mix) if exchange.mix else None

    def work(request: WorkRequest) -> ExchangeResult:
        clients, cohort, key = request.clients, request.cohort, request.key
        local, steps = begin((request.server, key), clients)

        def step(y: Array, carry: tuple[Tree, Tree, Array]) -> tuple[Tree, Tree, Array]:
            local, shared_state, sound = carry
            trajectory, shared_state, sound = act(local, clients, shared_state, key, y, sound)
            direction, local, sound = learn((key, y), (local, trajectory, clients, steps, sound))
            direction = mix(direction, cohort) if mix else direction
            local, sound = move(y, (local, direction, clients, steps, sound))
            return local, shared_state, sound

        carry = local, request.shared_state, cohort.present
        local, shared_state, sound = loops.repeat(update.local_steps, step, carry)
        slots = jnp.arange(cohort.ids.shape[0], dtype=jnp.int32)
        done = conclude((cohort, key), (local, clients, slots))
        why = jnp.where(sound, jnp.int32(FaultCode.FINE), jnp.int32(FaultCode.NOT_FINITE))
        return ExchangeResult(clients, done, shared_state, why)

    return work


def _pieces(exchange: Exchange) -> tuple[Callable, Callable, Callable, Callable]:
    """Start, learn, apply and finish of one client, as functions of (what all have in common, its row)."""
    update = exchange.local

    def begin(common: Any, client: Client) -> tuple[Tree, Array]:
        server, key = common
        received = message(exchange, server, client)
        local, steps = start(update, received, client, client_key(key, client))
        return local, jnp.asarray(steps, jnp.int32)

    def learn(common: Any, row: Any) -> tuple[Tree, Tree, Array]:
        (key, y), (local, trajectory, client, steps, sound) = common, row
        direction, after = estimate(update, local, trajectory, client, _address(key, client, y))
        sound &= (y >= steps) | all_finite((direction, after))
        busy = sound & (y < steps)
        return trees.where(busy, direction, trees.zeros_like(direction)), trees.where(busy, after, local), sound

    def move(y: Array, row: Any) -> tuple[Tree, Array]:
        local, direction, client, steps, sound = row
        moved = apply(update, local, direction, client)
        moved = moved if exchange.mix else trees.where(y < steps, moved, local)
        sound &= all_finite(moved)
        return trees.where(sound, moved, local), sound

    def conclude(common: Any, row: Any) -> WorkResult:
        (cohort, key), (local, client, slot) = common, row
        return finish(exchange, local, client, cohort, slot, key)

    return begin, learn, move, conclude


Act = Callable[[Tree, Client, Tree, Key, Array, Array], tuple[Tree, Tree, Array]]


def _acting(exchange: Exchange, loops: CohortLoops) -> Act:
    """(stack of local, clients, shared state, key, y, sound) -> stack of trajectories, shared state, sound.

    All clients act at once where they share an environment, else one by one.
    """
    update = exchange.local
    if update.mode.shared_env:
        sample = loops.whole(update.shared_sample) if update.mode.compiled else update.shared_sample
        return lambda local, clients, shared_state, key, y, sound: (
            *sample(local, clients, shared_state, keys.of(key, "scene", y)),
            sound,
        )

    def alone(common: Any, row: Any) -> Tree:
        (key, y), (local, client) = common, row
        return update.own_sample(local, client, _address(key, client, y))

    if update.mode.compiled:
        all_alone = loops.each(alone)
        return lambda local, clients, shared_state, key, y, sound: (
            all_alone((key, y), (local, clients)),
            shared_state,
            sound,
        )
    if loops.on_host is None:
        raise ValueError(f"exchange {exchange.name!r}: this engine cannot run simulators; use engine=processes()")
    in_turn = loops.on_host(alone)

    def act(
        local: Tree, clients: Client, shared_state: Tree, key: Key, y: Array, sound: Array
    ) -> tuple[Tree, Tree, Array]:
        trajectory, sound = in_turn((key, y), (local, clients), sound)
        return trajectory, shared_state, sound

    return act


def _address(key: Key, client: Client, y: Array) -> Key:
    return step_key(client_key(key, client), y)
