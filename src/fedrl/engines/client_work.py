"""One client's part in an exchange, compiled for one client: one program, or several around simulators."""

from functools import partial
from typing import Any, Protocol, cast

import jax
from jax import Array

from fedrl.core.client import WorkResult, client_key, client_part, finish, learn, message, start, step_key
from fedrl.core.round import Compile
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Mode, Server


class ClientWork(Protocol):
    """One client's result in an exchange; `slot` is its place in the cohort."""

    def __call__(self, server: Server, client: Client, cohort: Cohort, slot: Any, key: Key, /) -> WorkResult: ...


def client_work(exchange: Exchange, compile: Compile = jax.jit) -> ClientWork:
    """The work of any one client in `exchange`.

    Where everything can be compiled, it is one program. Otherwise acting is Python between compiled functions (and learning
    too in mode PYTHON) with the same keys, and a client stops at its tau_i instead of being masked: a loop inside a program
    would have to compile the simulator. `compile` is `jax.jit`, or `jax.jit` with a timer that pauses while it compiles.
    """
    if exchange.local.mode.compiled:
        return compile(partial(client_part, exchange))
    update = exchange.local

    @compile
    def begin(server: Server, client: Client, key: Key) -> tuple[Tree, Key, Array | int]:
        own_key = client_key(key, client)
        local, steps = start(update, message(exchange, server, client), client, own_key)
        return local, own_key, steps

    key_of = compile(step_key)
    step = partial(learn, update) if update.mode is Mode.PYTHON else compile(partial(learn, update))
    conclude = compile(partial(finish, exchange))

    def work(server: Server, client: Client, cohort: Cohort, slot: Any, key: Key) -> WorkResult:
        local, own_key, steps = begin(server, client, key)
        for y in range(min(int(steps), update.local_steps)):
            key_of_step = key_of(own_key, y)
            local = step(local, update.own_sample(local, client, key_of_step), client, key_of_step)
        return cast(WorkResult, conclude(local, client, cohort, slot, key))

    return work
