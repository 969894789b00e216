"""The executor of the engine `flower`: every client's work is done by its own organisation.

Each organisation with clients in the cohort gets one message; replies are put in the cohort's order, whenever they arrive.
Work is a pure function of the message, so an organisation that was lost and came back is asked again.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedrl.core.client import WorkResult
from fedrl.core.round import WorkRequest
from fedrl.engines.client_results import ClientResults, collecting_executor, present_slots
from fedrl.engines.driver import ClientExecutor
from fedrl.engines.fault_log import ReportFault
from fedrl.engines.worker_pool import MOST_DEATHS
from fedrl.faults import ClientFault, FaultCode, Faults
from fedrl.flower.faults import (
    UNUSABLE,
    check_reply,
    deadline_missed,
    node_lost,
    node_unusable,
    results_by_slot,
)
from fedrl.flower.messages import about, arrays, clients_of, named, needed_leaves
from fedrl.types import Exchange

LOOK = 0.2  # seconds between looks for replies


class PendingMessage(NamedTuple):
    """A message without a reply yet."""

    node: int
    slots: list[int]  # empty: a query for the clients of the node
    sent_at: float


class NodeReply(NamedTuple):
    """The reply for some slots of a cohort, or the fault of all of them."""

    slots: list[int]
    content: RecordDict | ClientFault


class Organisations:
    """The nodes of a grid: the clients of each, and the messages that have no reply yet."""

    def __init__(self, grid: Grid, patience: float):
        self.grid, self.patience = grid, patience
        self.serves: dict[int, list[range]] = {}  # node -> its clients
        self.known: set[int] = set()  # nodes that have been queried
        self.pending: dict[str, PendingMessage] = {}

    def collect(
        self, ids: dict[int, int], content: Callable[[list[int]], RecordDict], deadline: float | None = None
    ) -> list[NodeReply]:
        """The replies for the clients `ids`, by slot. A node has `deadline` seconds for each of its clients."""
        replies: list[NodeReply] = []
        unsent, losses = set(ids), Counter[int]()
        idle_since = time.monotonic()  # since then no reply has been outstanding
        while unsent or any(message.slots for message in self.pending.values()):
            self._send(MessageType.TRAIN, self._by_node(unsent, ids), content)
            unsent -= {slot for message in self.pending.values() for slot in message.slots}
            if unsent:
                self._query_new_nodes()
            if self.pending:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self.patience:
                replies.append(NodeReply(sorted(unsent), self._not_served(sorted(ids[slot] for slot in unsent))))
                unsent.clear()
            for message in self.grid.pull_messages(list(self.pending)):
                node, slots, _ = self.pending.pop(message.metadata.reply_to_message_id)
                if not message.has_error():
                    replies += [NodeReply(slots, check_reply(message.content, node))] if slots else []
                    if not slots:
                        self._register(node, message.content)
                elif message.error.code in UNUSABLE:
                    replies += [NodeReply(slots, node_unusable(node, message.error))] if slots else []
                else:  # it is asked again if it comes back, under this or another number
                    self._forget(node)
                    losses.update(slots)
                    lost_slots = [slot for slot in slots if losses[slot] >= MOST_DEATHS]
                    replies += [NodeReply([slot], node_lost(ids[slot], message.error)) for slot in lost_slots]
                    unsent.update(set(slots) - set(lost_slots))
            replies += self._late(ids, deadline)
            time.sleep(LOOK)
        return replies

    def _late(self, ids: dict[int, int], deadline: float | None) -> list[NodeReply]:
        """Stop waiting for messages past the deadline; a later reply is ignored."""
        if deadline is None:
            return []
        now = time.monotonic()
        late = {
            name: message
            for name, message in self.pending.items()
            if now - message.sent_at > deadline * max(1, len(message.slots))
        }
        for name in late:
            del self.pending[name]
        return [
            NodeReply(slots, deadline_missed(ids[slots[0]], node, deadline))
            for node, slots, _ in late.values()
            if slots
        ]

    def _by_node(self, slots: set[int], ids: dict[int, int]) -> dict[int, list[int]]:
        """Node -> the slots of its clients."""
        nodes = {slot: self._node_of(ids[slot]) for slot in sorted(slots)}
        return {node: [s for s in nodes if nodes[s] == node] for node in nodes.values() if node is not None}

    def _query_new_nodes(self) -> None:
        """Ask nodes that are new in the grid which clients they have."""
        new_nodes = [node for node in self.grid.get_node_ids() if node not in self.known]
        self.known.update(new_nodes)
        self._send(MessageType.QUERY, {node: [] for node in new_nodes}, lambda _: RecordDict())

    def _node_of(self, client: int) -> int | None:
        return next((node for node, parts in self.serves.items() if any(client in part for part in parts)), None)

    def _send(self, kind: str, to: dict[int, list[int]], content: Callable[[list[int]], RecordDict]) -> None:
        for node, slots in to.items():
            name = next(iter(self.grid.push_messages([Message(content(slots), node, kind)])), None)
            if name is None:  # Flower no longer knows the node
                self._forget(node)
            else:
                self.pending[name] = PendingMessage(node, slots, time.monotonic())

    def _register(self, node: int, content: RecordDict) -> None:
        """Record the clients of a node, which must have the same versions as the server."""
        record = content.config_records["node"]
        versions = json.loads(str(record["about"]))
        differing = [
            f"{name} {versions.get(name)} and not {own_version}"
            for name, own_version in about().items()
            if versions.get(name) != own_version
        ]
        if differing:
            raise ValueError(f"node {node} has {', '.join(differing)}; install the same versions on both sides")
        self.serves[node] = clients_of(record["clients"])

    def _forget(self, node: int) -> None:
        self.serves.pop(node, None)
        self.known.discard(node)

    def _not_served(self, clients: list[int]) -> ClientFault:
        ranges = [f"{p.start}-{p.stop - 1}" for parts in self.serves.values() for p in parts] or ["nobody"]
        text = (
            f"for {self.patience:.0f} s no node served client {clients[0]} ({len(clients)} of the cohort have none; served "
            f"are {', '.join(ranges)}); start its SuperNode (again), then go on with --resume"
        )
        return ClientFault(FaultCode.LATE, RuntimeError(text))


def flower_executor(
    nodes: Organisations, words: dict[str, str], faults: Faults, report_fault: ReportFault
) -> ClientExecutor:
    """`words` name the recipe, its settings and the arm. Seeds are played one after the other."""

    def perform(exchange: Exchange, request: WorkRequest, expected: WorkResult) -> ClientResults:
        ids = np.asarray(request.cohort.ids).tolist()
        results: ClientResults = {}
        cohort = {slot: ids[slot] for slot in present_slots(request)}
        for slots, reply in nodes.collect(cohort, _content(exchange, request, words), faults.deadline):
            results |= results_by_slot(slots, reply, expected)
        return results

    def perform_all(exchange: Exchange, requests: Sequence[WorkRequest], expected: WorkResult) -> list[ClientResults]:
        return [perform(exchange, request, expected) for request in requests]

    return ClientExecutor(collecting_executor(perform_all, faults, report_fault))


def _content(exchange: Exchange, request: WorkRequest, words: dict[str, str]) -> Callable[[list[int]], RecordDict]:
    """A function of slots: the message to their node. The part that all nodes receive is packed once."""
    common = arrays(
        needed_leaves(exchange.send, request.server)
        | named("cohort", request.cohort)
        | named("key", request.key)
        | named("seed", request.seed)
    )

    def content(slots: list[int]) -> RecordDict:
        memory = arrays(named("memory", jax.tree.map(lambda x: x[np.array(slots)], request.clients.memory)))
        work = ConfigRecord({**words, "exchange": exchange.name, "slots": slots})
        return RecordDict({"asked": work, "arrays": ArrayRecord(common | memory)})

    return content
