"""One client's part in an exchange, compiled for a client on its own: whole, or around simulators that cannot be."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.keys import Key
from fedrl.round import client_half, learn, seam
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Server

ClientWork = Callable[[Server, Client, Cohort, Array | np.int32, Key], tuple[Tree, Tree, Array]]


def client_work(exchange: Exchange, compiled: Callable[[Callable], Callable] = jax.jit) -> ClientWork:
    """`client_half` of round.py for one client after another: (server, client, cohort, slot, key) -> upload, memory, steps.

    A traced client is one compiled program. Otherwise acting is plain Python between compiled pieces (and learning too, if
    the update is `plain`), at the same addresses of randomness, and a client stops at its tau_i instead of being masked.
    `compiled` is `jax.jit`, or that and a look at the clock while it compiles.
    """
    if exchange.local.traced:
        return compiled(partial(client_half, exchange))
    update = exchange.local

    @compiled
    def start(server: Server, client: Client, key: Key) -> tuple[Tree, Key, Array | int]:
        local, mine = _started(exchange, server, client, key)
        return local, mine, update.steps_of(client, keys.of(mine, "steps")) if update.steps_of else update.max_steps

    step_key = compiled(lambda mine, y: keys.of(mine, "step", y))
    step = partial(learn, update) if update.plain else compiled(partial(learn, update))
    finish = compiled(partial(_finished, exchange))

    def work(
        server: Server, client: Client, cohort: Cohort, slot: Array | np.int32, key: Key
    ) -> tuple[Tree, Tree, Array]:
        local, mine, steps = start(server, client, key)
        for y in range(min(int(steps), update.max_steps)):
            here = step_key(mine, y)
            local = step(local, update.sample(local, client, here), client, here)
        return finish(local, client, cohort, slot, key)

    return work


def shapes(exchange: Exchange, server: Server, client: Client, cohort: Cohort, slot: Array, key: Key) -> Tree:
    """Shapes of what `client_work` returns, without acting: local steps keep the shapes they started with."""

    def idle(server: Server, client: Client, cohort: Cohort, slot: Array, key: Key) -> tuple[Tree, Tree, Array]:
        local, _ = _started(exchange, server, client, key)
        return _finished(exchange, local, client, cohort, slot, key)

    return jax.eval_shape(idle, server, client, cohort, slot, key)


def _started(exchange: Exchange, server: Server, client: Client, key: Key) -> tuple[Tree, Key]:
    mine = keys.of(key, "client", client.id)
    message = seam(exchange.send(server, client.id))
    return seam(exchange.local.start(message, client, keys.of(mine, "start"))), mine


def _finished(
    exchange: Exchange, local: Tree, client: Client, cohort: Cohort, slot: Array, key: Key
) -> tuple[Tree, Tree, Array]:
    upload, memory, env_steps = seam(exchange.local.finish(local, client))
    return seam(exchange.channel.encode(upload, cohort, slot, keys.of(key, "wire"))), memory, env_steps
