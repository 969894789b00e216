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
from fedrl.keys import Key
from fedrl.round import seam
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Server


class Lifted(NamedTuple):
    """From functions of one client to functions of a stack, as an engine does it."""

    each: Callable  # (function of (common, row), traced=True) -> function of (common, stack)
    whole: Callable  # (function of stacks) -> the same, compiled
    repeat: Callable  # (count, (y, carry) -> carry, carry) -> carry


class Done(NamedTuple):
    uploads: Tree  # stacks, as the cohort
    memory: Tree
    env_steps: Array
    scene: Tree


Work = Callable[[Server, Client, Tree, Cohort, Key], Done]  # (server, stack of clients, scene, cohort, key)


def needed(exchange: Exchange) -> bool:
    return exchange.mix is not None or exchange.local.together


def lock_step(exchange: Exchange, lifted: Lifted) -> Work:
    """The clients' part of `exchange`. A client past its tau_i learns nothing, but acts on and hears its neighbours."""
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
    def learn(common: Any, row: Any) -> tuple[Tree, Tree]:
        (key, y), (local, seen, client, steps) = common, row
        direction, after = seam(update.estimate(local, seen, client, _address(key, client, y)))
        busy = y < steps
        return trees.where(busy, direction, trees.zeros_like(direction)), trees.where(busy, after, local)

    @lifted.each
    def apply(y: Array, row: Any) -> Tree:
        local, direction, client, steps = row
        moved = seam(update.apply(local, direction, client))
        return moved if exchange.mix else trees.where(y < steps, moved, local)

    @lifted.each
    def finish(common: Any, row: Any) -> tuple[Tree, Tree, Array]:
        (asked, key), (local, client, slot) = common, row
        upload, memory, env_steps = seam(update.finish(local, client))
        return seam(exchange.channel.encode(upload, asked, slot, keys.of(key, "wire"))), memory, env_steps

    act = _acting(exchange, lifted)
    mix = lifted.whole(exchange.mix) if exchange.mix else None

    def work(server: Server, clients: Client, scene: Tree, asked: Cohort, key: Key) -> Done:
        local, steps = start((server, key), clients)

        def step(y: Array, carry: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
            local, scene = carry
            seen, scene = act(local, clients, scene, key, y)
            direction, local = learn((key, y), (local, seen, clients, steps))
            direction = mix(direction, asked) if mix else direction
            return apply(y, (local, direction, clients, steps)), scene

        local, scene = lifted.repeat(update.max_steps, step, (local, scene))
        slots = jnp.arange(asked.ids.shape[0], dtype=jnp.int32)
        uploads, memory, env_steps = finish((asked, key), (local, clients, slots))
        return Done(uploads, memory, env_steps, scene)

    return work


def _acting(exchange: Exchange, lifted: Lifted) -> Callable[[Tree, Client, Tree, Key, Array], tuple[Tree, Tree]]:
    """(stack of local, clients, scene, key, y) -> stack of seen, scene: all at once where clients meet, else one by one."""
    update = exchange.local
    if update.together:
        meet = lifted.whole(update.sample) if update.traced else update.sample
        return lambda local, clients, scene, key, y: meet(local, clients, scene, keys.of(key, "scene", y))

    def alone(common: Any, row: Any) -> Tree:
        (key, y), (local, client) = common, row
        return update.sample(local, client, _address(key, client, y))

    all_alone = lifted.each(alone, update.traced)
    return lambda local, clients, scene, key, y: (all_alone((key, y), (local, clients)), scene)


def _address(key: Key, client: Client, y: Array) -> Key:
    return keys.of(key, "client", client.id, "step", y)
