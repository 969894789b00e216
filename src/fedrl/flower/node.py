"""An organisation's side of the engine `flower`: the work of its own clients, rebuilt from a recipe's name and settings.

Flower starts this module anew for every message. Messages hold arrays and text, never code; the parameters of the
environments are known here from the recipe, and only the clients' memories travel with the message.
"""

import json
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

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
from fedrl.flower.faults import error_text, fault_record
from fedrl.flower.messages import arrays, clients_of, named, tree
from fedrl.keys import Key, of_seed
from fedrl.rollouts import host
from fedrl.trees import row, stacked
from fedrl.types import Client, Clients, Cohort, Server

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """The clients of this node, and its versions."""
    clients = str(context.node_config.get("clients", ""))
    words = ConfigRecord({"clients": clients, "about": json.dumps(messages.about())})
    return Message(RecordDict({"node": words}), reply_to=message)


@app.train()
def work(message: Message, context: Context) -> Message:
    """Some clients' part in one exchange. A fault is reported in one sentence; its traceback stays in this node's log."""
    try:
        content = reply(message.content, dict(context.node_config))
    except Exception as error:
        logging.getLogger("flwr").exception("the work could not be done")
        content = RecordDict({"fault": ConfigRecord({"error": error_text(error), "kind": type(error).__name__})})
    finally:
        host.close_all()
    return Message(content, reply_to=message)


def reply(request: RecordDict, node: dict[str, Any]) -> RecordDict:
    """The stack of the clients' results as named arrays; "faults" has the slots and errors of clients without a result."""
    words, record = request.config_records["asked"], request.array_records["arrays"]
    recipe = str(words["recipe"])
    if node.get("recipe", recipe) != recipe:
        raise ValueError(f"this node takes part in {node['recipe']}, not in {recipe}; ask its owner")
    part = rebuild(recipe, *(str(words[name]) for name in ("settings", "arm", "exchange")))
    slots = [int(slot) for slot in cast(list[int], words["slots"])]

    seed = tree(record, "seed", of_seed(0))
    server = tree(record, "server", part.create(seed), partly=True)
    cohort = tree(record, "cohort", jax.eval_shape(part.choose, server, seed))
    _refuse_others(np.asarray(cohort.ids)[slots].tolist(), node)
    rows = part.rows(part.enrol(seed), cohort.ids)
    memory = tree(record, "memory", jax.tree.map(lambda x: x[np.array(slots)], rows.memory))
    server, cohort, memory, key = jax.device_put((server, cohort, memory, tree(record, "key", seed)))
    results, faults = [], list[tuple[int, Exception]]()
    for i, slot in enumerate(slots):
        client = row(rows, slot)._replace(memory=row(memory, i))
        try:
            results.append(jax.block_until_ready(part.work(server, client, cohort, np.int32(slot), key)))
        except Exception as error:
            logging.getLogger("flwr").exception("client %d: the work could not be done", int(client.id))
            faults.append((slot, error))
    records: dict[str, Any] = {"answer": ArrayRecord(arrays(named("done", stacked(results))))} if results else {}
    return RecordDict(records | ({"faults": fault_record(faults)} if faults else {}))


class Part(NamedTuple):
    """What a node needs for its clients' part in an exchange."""

    create: Callable[[Key], Server]
    enrol: Callable[[Key], Clients]
    rows: Callable[[Clients, Array], Client]
    choose: Callable[[Server, Key], Cohort]
    work: ClientWork


@lru_cache(maxsize=8)
def rebuild(recipe: str, settings: str, arm: str, exchange: str) -> Part:
    """One exchange of a recipe's arm, built from the code that is installed here."""
    cache.enable()
    if not find.has_name(recipe):
        raise ValueError(f"no recipe {recipe!r} is installed on this node; install the package that has it")
    order = orders.order(recipe, overrides=json.loads(settings))
    built = find.recipe(recipe).build(order.config)[arm]
    federation, shared = built.federation, built.federation.shared()
    algorithm = built.method(federation)
    evaluation = (built.evaluation or default_evaluation(federation))(algorithm, federation)
    (one,) = (e for e in (*algorithm.opening, *algorithm.exchanges, evaluation) if e.name == exchange)
    return Part(
        create=jax.jit(algorithm.init),
        enrol=jax.jit(lambda key: federation.enrol(shared, key, algorithm)),
        rows=jax.jit(lambda clients, ids: federation.rows(shared, clients, ids)),
        choose=one.choose,
        work=client_work(one),
    )


def _refuse_others(ids: list[int], node: dict[str, Any]) -> None:
    ranges = clients_of(node.get("clients", ""))
    if others := [client for client in ids if not any(client in one for one in ranges)]:
        raise ValueError(
            f"this node does the work of clients {node['clients']}, not of client {others[0]}; ask its owner"
        )
