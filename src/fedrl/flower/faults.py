"""How clients fail over Flower: what a node, or Flower itself, says of work that was not done.

A node's answer has the arrays of the clients whose work went well, and as JSON under "faults" who failed and how; "fault"
instead says that nothing could be done for any of them.
"""

import json

import jax
from flwr.app import ConfigRecord, Error, RecordDict

from fedrl.engines.client_results import ClientResults
from fedrl.engines.worker_pool import ERROR_TYPES, MOST_DEATHS
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, FaultCode
from fedrl.flower.messages import tree
from fedrl.trees import Tree, row

# Flower's codes for what asking again does not mend
CANNOT = {1: "cannot load fedrl", 2: "cannot start its part", 7: "does not accept the app"}


def told(faults: list[tuple[int, Exception]]) -> ConfigRecord:
    """A node's word on the slots whose work failed."""
    return ConfigRecord({"slots": json.dumps([[slot, type(error).__name__, said(error)] for slot, error in faults])})


def said(error: Exception) -> str:
    return str(error) if isinstance(error, EnvironmentFailed | ValueError) else f"{type(error).__name__}: {error}"


def by_slot(slots: list[int], came: RecordDict | ClientFault, one: Tree) -> ClientResults:
    """The answers of the clients of a message, each a tree like `one`."""
    if isinstance(came, ClientFault):
        return dict.fromkeys(slots, came)
    words = came.config_records.get("faults")
    reports = json.loads(str(words["slots"])) if words else []
    found: ClientResults = {
        slot: ClientFault(FaultCode.RAISED, ERROR_TYPES.get(kind, RuntimeError)(error)) for slot, kind, error in reports
    }
    good = [slot for slot in slots if slot not in found]
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct((len(good), *x.shape), x.dtype), one)
    try:
        stack = tree(came.array_records["answer"], "done", like) if good else ()
    except (ValueError, KeyError) as error:
        return found | dict.fromkeys(good, ClientFault(FaultCode.SHAPE, EnvironmentFailed(str(error))))
    return found | {slot: row(stack, i) for i, slot in enumerate(good)}


def lost_thrice(client: int, error: Error) -> ClientFault:
    text = (
        f"the node of client {client} was lost {MOST_DEATHS} times in a row at this client's work "
        f"(the last time: {error.reason}); its own log may say why"
    )
    return ClientFault(FaultCode.DIED, RuntimeError(text))


def cannot(node: int, error: Error) -> ClientFault:
    text = f"node {node} {CANNOT[error.code]}: {error.reason}; its own log says more"
    return ClientFault(FaultCode.RAISED, RuntimeError(text))


def overdue(client: int, node: int, deadline: float) -> ClientFault:
    text = (
        f"client {client}: node {node} did not answer within the deadline of {deadline:g} s a client; "
        "allow more time, or leave such clients out: --faults leave-out"
    )
    return ClientFault(FaultCode.LATE, EnvironmentFailed(text))


def checked(content: RecordDict, node: int) -> RecordDict | ClientFault:
    """What it says of all the clients it was asked for: their answers, or why there are none."""
    if "fault" not in content.config_records:
        return content
    fault = content.config_records["fault"]
    kind = ERROR_TYPES.get(str(fault["kind"]), RuntimeError)
    return ClientFault(FaultCode.RAISED, kind(f"node {node}: {fault['error']!s}"))
