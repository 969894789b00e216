"""One client's part in an exchange, compiled for a client on its own: whole, or around simulators that cannot be."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from fedrl.core.client import WorkResult, client_key, finish, learn, message, start, step_key, whole
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Mode, Server

ClientWork = Callable[[Server, Client, Cohort, Array | np.int32, Key], WorkResult]


def client_work(exchange: Exchange, compiled: Callable[[Callable], Callable] = jax.jit) -> ClientWork:
    """(server, client, cohort, slot, key) -> the client's result.

    A traced client is one compiled program. Otherwise acting is plain Python between compiled pieces (and learning too, if
    the update is `plain`), at the same addresses of randomness, and a client stops at its tau_i instead of being masked:
    a loop inside a program would have to compile the simulator. `compiled` is `jax.jit`, or that and a clock that stops
    while it compiles.
    """
    if exchange.local.mode.compiled:
        return compiled(partial(whole, exchange))
    update = exchange.local

    @compiled
    def begin(server: Server, client: Client, key: Key) -> tuple[Tree, Key, Array | int]:
        own_key = client_key(key, client)
        local, steps = start(update, message(exchange, server, client), client, own_key)
        return local, own_key, steps

    key_of = compiled(step_key)
    step = partial(learn, update) if update.mode is Mode.PYTHON else compiled(partial(learn, update))
    conclude = compiled(partial(finish, exchange))

    def work(server: Server, client: Client, cohort: Cohort, slot: Any, key: Key) -> WorkResult:
        local, own_key, steps = begin(server, client, key)
        for y in range(min(int(steps), update.local_steps)):
            here = key_of(own_key, y)
            local = step(local, update.own_sample(local, client, here), client, here)
        return conclude(local, client, cohort, slot, key)

    return work
