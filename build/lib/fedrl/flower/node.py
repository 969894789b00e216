"""An organisation's side of the engine `flower`: the work of its own clients, rebuilt from a recipe's name and settings.

Flower starts this anew for every message. What comes is arrays and words, never code; what the worlds are like is known
here from the recipe, and only the clients' memories come and go with the message.
"""

import json
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from jax import Array

from fedrl.engines import cache
from fedrl.engines.client_work import ClientWork, client_work
from fedrl.evaluation import default_evaluation
from fedrl.experiments import find, orders
from fedrl.flower import messages
from fedrl.flower.faults import said, told
from fedrl.flower.messages import arrays, clients_of, named, tree
from fedrl.keys import Key, of_seed
from fedrl.rollouts import host
from fedrl.trees import row, stacked
from fedrl.types import Client, Clients, Cohort, Server

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Whose work is done here, and with what."""
    clients = str(context.node_config.get("clients", ""))
    words = ConfigRecord({"clients": clients, "about": json.dumps(messages.about())})
    return Message(RecordDict({"node": words}), reply_to=message)


@app.train()
def work(message: Message, context: Context) -> Message:
    """Some clients' part in one exchange. A fault is told in a sentence; its traceback stays in this node's log.

    A "fault" is of all of them: nothing could be done.
    """
    try:
        content = answer(message.content, dict(context.node_config))
    except Exception as error:
        logging.getLogger("flwr").exception("the work could not be done")
        content = RecordDict({"fault": ConfigRecord({"error": said(error), "kind": type(error).__name__})})
    finally:
        host.close_all()
    return Message(content, reply_to=message)


def answer(asked: RecordDict, node: dict[str, Any]) -> RecordDict:
    """The stack of uploads, memories and environment steps of the clients asked for, as named arrays.

    "faults" are the slots of those whose work failed, and why; they are not in the stack.
    """
    words, came = asked.config_records["asked"], asked.array_records["arrays"]
    recipe = str(words["recipe"])
    if node.get("recipe", recipe) != recipe:
        raise ValueError(f"this node takes part in {node['recipe']}, not in {recipe}; ask its owner")
    part = rebuilt(recipe, *(str(words[name]) for name in ("settings", "arm", "exchange")))
    slots = [int(slot) for slot in words["slots"]]  # type: ignore[union-attr]

    seed = tree(came, "seed", of_seed(0))
    server = tree(came, "server", part.create(seed), partly=True)
    cohort = tree(came, "cohort", jax.eval_shape(part.choose, server, seed))
    _refuse_others(np.asarray(cohort.ids)[slots].tolist(), node)
    rows = part.rows(part.enrol(seed), cohort.ids)
    memory = tree(came, "memory", jax.tree.map(lambda x: x[np.array(slots)], rows.memory))
    server, cohort, memory, key = jax.device_put((server, cohort, memory, tree(came, "key", seed)))
    done, faults = [], list[tuple[int, Exception]]()
    for i, slot in enumerate(slots):
        client = row(rows, slot)._replace(memory=row(memory, i))
        try:
            done.append(jax.block_until_ready(part.work(server, client, cohort, np.int32(slot), key)))
        except Exception as error:
            logging.getLogger("flwr").exception("client %d: the work could not be done", int(client.id))
            faults.append((slot, error))
    records: dict[str, Any] = {"answer": ArrayRecord(arrays(named("done", stacked(done))))} if done else {}
    return RecordDict(records | ({"faults": told(faults)} if faults else {}))


class Part(NamedTuple):
    """What a client needs for its part in an exchange."""

    create: Callable[[Key], Server]
    enrol: Callable[[Key], Clients]
    rows: Callable[[Clients, Array], Client]
    choose: Callable[[Server, Key], Cohort]
    work: ClientWork


@lru_cache(maxsize=8)
def rebuilt(recipe: str, settings: str, arm: str, exchange: str) -> Part:
    """The part of a recipe's arm in an exchange, made here of what is installed here."""
    cache.enable()
    order = orders.order(recipe, overrides=json.loads(settings))
    built = find.recipe(recipe).build(order.config)[arm]
    where, shared = built.federation, built.federation.shared()
    algorithm = built.method(where)
    look = (built.evaluation or default_evaluation(where))(algorithm, where)
    (one,) = (e for e in (*algorithm.opening, *algorithm.exchanges, look) if e.name == exchange)
    return Part(
        create=jax.jit(algorithm.init),
        enrol=jax.jit(lambda key: where.enrol(shared, key, algorithm)),
        rows=jax.jit(lambda clients, ids: where.rows(shared, clients, ids)),
        choose=one.choose,
        work=client_work(one),
    )


def _refuse_others(ids: list[int], node: dict[str, Any]) -> None:
    mine = clients_of(node.get("clients", ""))
    if others := [client for client in ids if not any(client in of for of in mine)]:
        raise ValueError(
            f"this node does the work of clients {node['clients']}, not of client {others[0]}; ask its owner"
        )
