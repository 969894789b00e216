"""One client's part in an exchange: start, act, estimate, apply, finish, encode, report.

The only place that makes a client's keys. Every engine calls these functions: `client_part` inside one compiled program,
or the single steps, around a simulator (`engines/client_work.py`) or in lock step (`lock_step.py`).
"""

from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, LocalUpdate, Metrics, Server

T = TypeVar("T")


def barrier(tree: T) -> T:
    """Ask the compiler not to optimise across this point.

    A client then computes the same bits whether it is compiled alone or with the whole federation (docs/engines.md says
    how far the compiler complies).
    """
    return cast(T, jax.lax.optimization_barrier(tree))


class WorkResult(NamedTuple):
    """What a client returns from an exchange; with a leading client axis, what a cohort returns."""

    upload: Tree  # as the channel encodes it
    memory: Tree  # () if unchanged
    env_steps: Array
    metrics: Metrics  # the learner's


def client_key(key: Key, client: Client) -> Key:
    """The client's key below the key of an exchange."""
    return keys.of(key, "client", client.id)


def step_key(own_key: Key, y: int | Array) -> Key:
    """The key of the client's local step `y`."""
    return keys.of(own_key, "step", y)


def message(exchange: Exchange, server: Server, client: Client) -> Tree:
    return barrier(exchange.send(server, client.id))


def start(update: LocalUpdate, received: Tree, client: Client, own_key: Key) -> tuple[Tree, int | Array]:
    """The client's local state, and the number of local steps it takes (tau_i)."""
    steps = update.steps_of(client, keys.of(own_key, "steps")) if update.steps_of else update.local_steps
    return barrier(update.start(received, client, keys.of(own_key, "start"))), steps


def estimate(update: LocalUpdate, local: Tree, trajectory: Tree, client: Client, key: Key) -> tuple[Tree, Tree]:
    """A direction from the trajectory, and the local state after estimating it."""
    return barrier(update.estimate(local, trajectory, client, key))


def apply(update: LocalUpdate, local: Tree, direction: Tree, client: Client) -> Tree:
    return barrier(update.apply(local, direction, client))


def learn(update: LocalUpdate, local: Tree, trajectory: Tree, client: Client, key: Key) -> Tree:
    """One local step after acting: estimate a direction and apply it."""
    direction, after = estimate(update, local, trajectory, client, key)
    return apply(update, after, direction, client)


def finish(exchange: Exchange, local: Tree, client: Client, cohort: Cohort, slot: Any, key: Key) -> WorkResult:
    """After the last local step: the upload as the channel encodes it, the client's memory and its metrics."""
    upload, memory, env_steps = barrier(exchange.local.finish(local, client))
    encoded = barrier(exchange.channel.encode(upload, cohort, slot, keys.of(key, "wire")))
    return WorkResult(encoded, memory, env_steps, exchange.local.metrics(local, client))


def all_steps(update: LocalUpdate, received: Tree, client: Client, own_key: Key) -> Tree:
    """All local steps of one client as one compiled loop: its local state after the last."""
    local, steps = start(update, received, client, own_key)

    def step(y: Array, local: Tree) -> Tree:
        key = step_key(own_key, y)
        after = learn(update, local, update.own_sample(local, client, key), client, key)
        # a client past its tau_i keeps its state
        return after if update.steps_of is None else trees.where(y < steps, after, local)

    return jax.lax.fori_loop(0, _trip_count(update, client), step, local)


def _trip_count(update: LocalUpdate, client: Client) -> int | Array:
    """How often the loop runs. A single step is a number the compiler cannot know (ids are not negative).

    Otherwise it would unroll the loop and fuse its body with the surrounding code, which differs between engines.
    """
    return 1 + jnp.minimum(client.id, 0) if update.local_steps == 1 else update.local_steps


def client_part(exchange: Exchange, server: Server, client: Client, cohort: Cohort, slot: Any, key: Key) -> WorkResult:
    """One client's whole part in an exchange, where its environment can be compiled."""
    received = message(exchange, server, client)
    local = all_steps(exchange.local, received, client, client_key(key, client))
    return finish(exchange, local, client, cohort, slot, key)
