"""An exchange in lock step: clients who meet in one world, or who tell each other their directions before every step.

    each starts -> all act -> each learns a direction -> neighbours mix them -> each applies its own -> ... -> each finishes

(Xu et al. 2024, Algorithm 2.) What is done to one client is the same as in `round.py`; how it is done to all of them is the
engine's: `Lifted` says how.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.admission import Heard, all_finite
from fedrl.faults import Why
from fedrl.keys import Key
from fedrl.round import seam
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Server


class Lifted(NamedTuple):
    """From functions of one client to functions of a stack, as an engine does it."""

    each: Callable  # (function of (common, row)) -> function of (common, stack)
    whole: Callable  # (function of stacks) -> the same, compiled
    repeat: Callable  # (count, (y, carry) -> carry, carry) -> carry
    outside: Callable | None = (
        None  # (function of (common, row)) -> function of (common, stack, sound) -> stack, sound:
    )
    #                                  for what cannot be compiled; those who fail are not sound any more


Work = Callable[[Server, Client, Tree, Cohort, Key], Heard]  # (server, stack of clients, scene, cohort, key)


def needed(exchange: Exchange) -> bool:
    return exchange.mix is not None or exchange.local.together


def lock_step(exchange: Exchange, lifted: Lifted) -> Work:
    """The clients' part of `exchange`. A client past its tau_i learns nothing, but acts on and hears its neighbours.

    A client whose direction or parameters stop being finite tells its neighbours zeros from then on, keeps what it had
    before that step, and is a fault at the end.
    """
    update = exchange.local
    if update.plain:
        raise ValueError(
            f"exchange {exchange.name!r}: clients that go step by step together want a learner that JAX can compile; "
            "this one learns in plain Python, so leave `mix` and shared worlds out"
        )

    @lifted.each
    def start(common: Any, client: Client) -> tuple[Tree, Array]:
        server, key = common
        mine = keys.of(key, "client", client.id)
        local = update.start(seam(exchange.send(server, client.id)), client, keys.of(mine, "start"))
        steps = update.steps_of(client, keys.of(mine, "steps")) if update.steps_of else update.max_steps
        return seam(local), jnp.asarray(steps, jnp.int32)

    @lifted.each
    def learn(common: Any, row: Any) -> tuple[Tree, Tree, Array]:
        (key, y), (local, seen, client, steps, sound) = common, row
        direction, after = seam(update.estimate(local, seen, client, _address(key, client, y)))
        sound &= (y >= steps) | all_finite((direction, after))
        busy = sound & (y < steps)
        return trees.where(busy, direction, trees.zeros_like(direction)), trees.where(busy, after, local), sound

    @lifted.each
    def apply(y: Array, row: Any) -> tuple[Tree, Array]:
        local, direction, client, steps, sound = row
        moved = seam(update.apply(local, direction, client))
        moved = moved if exchange.mix else trees.where(y < steps, moved, local)
        sound &= all_finite(moved)
        return trees.where(sound, moved, local), sound

    @lifted.each
    def finish(common: Any, row: Any) -> tuple[Tree, Tree, Array]:
        (asked, key), (local, client, slot) = common, row
        upload, memory, env_steps = seam(update.finish(local, client))
        return seam(exchange.channel.encode(upload, asked, slot, keys.of(key, "wire"))), memory, env_steps

    act = _acting(exchange, lifted)
    mix = lifted.whole(exchange.mix) if exchange.mix else None

    def work(server: Server, clients: Client, scene: Tree, asked: Cohort, key: Key) -> Heard:
        local, steps = start((server, key), clients)

        def step(y: Array, carry: tuple[Tree, Tree, Array]) -> tuple[Tree, Tree, Array]:
            local, scene, sound = carry
            seen, scene, sound = act(local, clients, scene, key, y, sound)
            direction, local, sound = learn((key, y), (local, seen, clients, steps, sound))
            direction = mix(direction, asked) if mix else direction
            local, sound = apply(y, (local, direction, clients, steps, sound))
            return local, scene, sound

        local, scene, sound = lifted.repeat(update.max_steps, step, (local, scene, asked.present))
        slots = jnp.arange(asked.ids.shape[0], dtype=jnp.int32)
        uploads, memory, env_steps = finish((asked, key), (local, clients, slots))
        why = jnp.where(sound, jnp.int32(Why.FINE), jnp.int32(Why.NOT_FINITE))
        return Heard(clients, uploads, memory, env_steps, scene, why)

    return work


Act = Callable[[Tree, Client, Tree, Key, Array, Array], tuple[Tree, Tree, Array]]


def _acting(exchange: Exchange, lifted: Lifted) -> Act:
    """(stack of local, clients, scene, key, y, sound) -> stack of seen, scene, sound: all at once where clients meet, else
    one by one.
    """
    update = exchange.local
    if update.together:
        meet = lifted.whole(update.sample) if update.traced else update.sample
        return lambda local, clients, scene, key, y, sound: (
            *meet(local, clients, scene, keys.of(key, "scene", y)),
            sound,
        )

    def alone(common: Any, row: Any) -> Tree:
        (key, y), (local, client) = common, row
        return update.sample(local, client, _address(key, client, y))

    if update.traced:
        all_alone = lifted.each(alone)
        return lambda local, clients, scene, key, y, sound: (all_alone((key, y), (local, clients)), scene, sound)
    assert lifted.outside is not None, "an engine without simulators has refused this exchange"
    in_turn = lifted.outside(alone)

    def act(local: Tree, clients: Client, scene: Tree, key: Key, y: Array, sound: Array) -> tuple[Tree, Tree, Array]:
        seen, sound = in_turn((key, y), (local, clients), sound)
        return seen, scene, sound

    return act


def _address(key: Key, client: Client, y: Array) -> Key:
    return keys.of(key, "client", client.id, "step", y)
