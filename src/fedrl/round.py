"""One federated round: the file to read first.

    for each exchange:  choose a cohort -> each client works on its own -> admit what came back -> combine it
                        -> the server receives it

`execute` is the engine's part, from the cohort asked to the stack of uploads; everything else is here and the same
everywhere. `admission.py` says whose upload counts. A `seam` is an optimisation barrier: it asks the compiler not to work
across it, so that a client computes the same bits whether it is compiled alone or inside the program of the whole
federation (docs/engines.md says how far it is heeded).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.admission import Heard, admit, ask, tired
from fedrl.faults import STOP, Faults
from fedrl.federation import Clients
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Exchange, LocalUpdate, Metrics, Server

seam = jax.lax.optimization_barrier


Execute = Callable[[Exchange, Server, Clients, Cohort, Key], Heard]


def play_round(
    algorithm: Algorithm, execute: Execute, server: Server, clients: Clients, key: Key, faults: Faults = STOP
) -> tuple[Server, Clients, Metrics]:
    metrics: Metrics = {}
    for exchange in algorithm.exchanges:
        server, clients, seen = play_exchange(exchange, execute, server, clients, key, faults)
        metrics |= seen
    return server, clients, metrics


def play_exchange(
    exchange: Exchange, execute: Execute, server: Server, clients: Clients, key: Key, faults: Faults = STOP
) -> tuple[Server, Clients, Metrics]:
    key = keys.of(key, exchange.name)
    chosen = exchange.choose(server, keys.of(key, "choose"))
    asked = ask(faults, chosen, clients.faults)
    heard = execute(exchange, server, clients, asked, key)
    return take_in(exchange, server, clients, chosen, asked, heard, key, faults)


def take_in(
    exchange: Exchange,
    server: Server,
    clients: Clients,
    chosen: Cohort,
    asked: Cohort,
    heard: Heard,
    key: Key,
    faults: Faults,
) -> tuple[Server, Clients, Metrics]:
    """From what came back to the next server and clients."""
    none = jnp.zeros_like(next(iter(clients.faults.values())))
    admitted = admit(faults, exchange.local, chosen, asked, heard, clients.faults.get(exchange.name, none))
    cohort = admitted.cohort
    server, seen = server_half(exchange, server, admitted.uploads, cohort, key)
    counts = {name: admitted.in_a_row if name == exchange.name else n for name, n in clients.faults.items()}
    after = clients.keeping(cohort, heard.memory)._replace(scene=heard.scene, faults=counts)
    seen |= {"answered": cohort.present.sum(), "env_steps": admitted.env_steps.sum()}
    seen |= {"asked_ids": cohort.ids, "fault_codes": admitted.why}
    if faults.leaves_out:
        seen["askable"] = jnp.sum(~tired(faults, clients.faults))
    return server, after, {f"{exchange.name}/{name}": value for name, value in seen.items()}


def server_half(exchange: Exchange, server: Server, uploads: Tree, cohort: Cohort, key: Key) -> tuple[Server, Metrics]:
    """From the stack of uploads to the next server."""
    server, uploads, cohort = seam((server, uploads, cohort))
    aggregate = exchange.channel.decode(exchange.combine(uploads, cohort), cohort, keys.of(key, "wire"))
    return seam(exchange.receive(server, seam(aggregate), cohort, keys.of(key, "receive")))


def client_half(
    exchange: Exchange, server: Server, client: Client, cohort: Cohort, slot: Array, key: Key
) -> tuple[Tree, Tree, Array]:
    """One client's whole part in an exchange: what it puts on the wire, its new memory, the environment steps it took."""
    message = seam(exchange.send(server, client.id))
    mine = keys.of(key, "client", client.id)
    local = work(exchange.local, message, client, mine)
    upload, memory, env_steps = seam(exchange.local.finish(local, client))
    return seam(exchange.channel.encode(upload, cohort, slot, keys.of(key, "wire"))), memory, env_steps


def work(update: LocalUpdate, message: Tree, client: Client, key: Key) -> Tree:
    """All local steps of one client, on its own."""

    def step(y: Array, local: Tree) -> Tree:
        here = keys.of(key, "step", y)
        after = learn(update, local, update.sample(local, client, here), client, here)
        # a client past its tau_i stays as it was
        return after if update.steps_of is None else trees.where(y < steps, after, local)

    steps = update.steps_of(client, keys.of(key, "steps")) if update.steps_of else update.max_steps
    local = seam(update.start(message, client, keys.of(key, "start")))
    return jax.lax.fori_loop(0, update.max_steps, step, local)


def learn(update: LocalUpdate, local: Tree, seen: Tree, client: Client, key: Key) -> Tree:
    """One local step after acting: a direction from what was seen, applied."""
    direction, after = seam(update.estimate(local, seen, client, key))
    return seam(update.apply(after, direction, client))
