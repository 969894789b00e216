"""Faults of clients over Flower, as a node or Flower itself reports them.

A node's reply has the arrays of the clients that did their work and, as JSON under "faults", the errors of the others;
or only a "fault", if no work could be done.
"""

import json

import jax
from flwr.app import ConfigRecord, Error, RecordDict

from fedrl.core.client import WorkResult
from fedrl.engines.client_results import ClientResults
from fedrl.engines.worker_pool import ERROR_TYPES, MOST_DEATHS
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, FaultCode
from fedrl.flower.messages import tree
from fedrl.trees import row

# Flower's error codes for which asking again does not help
UNUSABLE = {1: "cannot load fedrl", 2: "cannot start its part", 7: "does not accept the app"}


def fault_record(faults: list[tuple[int, Exception]]) -> ConfigRecord:
    """A node's report on the slots whose work failed."""
    return ConfigRecord(
        {"slots": json.dumps([[slot, type(error).__name__, error_text(error)] for slot, error in faults])}
    )


def error_text(error: Exception) -> str:
    return str(error) if isinstance(error, EnvironmentFailed | ValueError) else f"{type(error).__name__}: {error}"


def results_by_slot(slots: list[int], reply: RecordDict | ClientFault, expected: WorkResult) -> ClientResults:
    """The results of the clients of a message, each a tree like `expected`."""
    if isinstance(reply, ClientFault):
        return dict.fromkeys(slots, reply)
    record = reply.config_records.get("faults")
    reports = json.loads(str(record["slots"])) if record else []
    results: ClientResults = {
        slot: ClientFault(FaultCode.RAISED, ERROR_TYPES.get(kind, RuntimeError)(error)) for slot, kind, error in reports
    }
    fine = [slot for slot in slots if slot not in results]
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct((len(fine), *x.shape), x.dtype), expected)
    try:
        stack = tree(reply.array_records["answer"], "done", like) if fine else ()
    except (ValueError, KeyError) as error:
        return results | dict.fromkeys(fine, ClientFault(FaultCode.SHAPE, EnvironmentFailed(str(error))))
    return results | {slot: row(stack, i) for i, slot in enumerate(fine)}


def node_lost(client: int, error: Error) -> ClientFault:
    text = (
        f"the node of client {client} was lost {MOST_DEATHS} times in a row at this client's work "
        f"(the last time: {error.reason}); its own log may say why"
    )
    return ClientFault(FaultCode.DIED, RuntimeError(text))


def node_unusable(node: int, error: Error) -> ClientFault:
    text = f"node {node} {UNUSABLE[error.code]}: {error.reason}; its own log says more"
    return ClientFault(FaultCode.RAISED, RuntimeError(text))


def deadline_missed(client: int, node: int, deadline: float) -> ClientFault:
    text = (
        f"client {client}: node {node} did not answer within the deadline of {deadline:g} s per client; "
        "allow more time, or leave such clients out: --faults leave-out"
    )
    return ClientFault(FaultCode.LATE, EnvironmentFailed(text))


def check_reply(content: RecordDict, node: int) -> RecordDict | ClientFault:
    """The reply itself, or the fault of all its clients if the node could not do any work."""
    if "fault" not in content.config_records:
        return content
    fault = content.config_records["fault"]
    error_type = ERROR_TYPES.get(str(fault["kind"]), RuntimeError)
    return ClientFault(FaultCode.RAISED, error_type(f"node {node}: {fault['error']!s}"))
