"""The executor of the engine `flower`: every client's work is done by the organisation that it belongs to.

A message goes to each organisation with clients in the cohort; answers are put in the cohort's order, whenever they come.
Work is a pure function of what is sent, so an organisation that was lost and came back is simply asked again.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
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
from fedrl.flower.faults import CANNOT, by_slot, cannot, checked, lost_thrice, overdue
from fedrl.flower.messages import about, arrays, clients_of, looked_at, named
from fedrl.types import Exchange

LOOK = 0.2  # seconds between looks for answers


class Sent(NamedTuple):
    """A message that is out."""

    node: int
    slots: list[int]  # none: the node is asked who it is
    at: float  # when it was sent


class Answer(NamedTuple):
    """What came for some slots of a cohort: a node's answer, or why there is none."""

    slots: list[int]
    content: RecordDict | ClientFault


class Organisations:
    """The nodes of a grid: whose work each does, and the messages that are out."""

    def __init__(self, grid: Grid, patience: float):
        self.grid, self.patience = grid, patience
        self.serves: dict[int, list[range]] = {}  # node -> its clients
        self.known: set[int] = set()  # nodes that were asked who they are
        self.out: dict[str, Sent] = {}

    def collect(
        self, ids: dict[int, int], content: Callable[[list[int]], RecordDict], deadline: float | None = None
    ) -> list[Answer]:
        """The answers of the clients `ids`, by slot. A node has `deadline` seconds for each of its clients."""
        answers: list[Answer] = []
        owed, losses = set(ids), Counter[int]()
        alone = time.monotonic()  # since when nobody is to answer us
        while owed or any(sent.slots for sent in self.out.values()):
            self._send(MessageType.TRAIN, self._at_home(owed, ids), content)
            owed -= {slot for sent in self.out.values() for slot in sent.slots}
            if owed:
                self._look_round()
            if self.out:
                alone = time.monotonic()
            elif time.monotonic() - alone > self.patience:
                answers.append(Answer(sorted(owed), self._nobody(sorted(ids[slot] for slot in owed))))
                owed.clear()
            for reply in self.grid.pull_messages(list(self.out)):
                node, slots, _ = self.out.pop(reply.metadata.reply_to_message_id)
                if not reply.has_error():
                    answers += [Answer(slots, checked(reply.content, node))] if slots else []
                    if not slots:
                        self._meet(node, reply.content)
                elif reply.error.code in CANNOT:
                    answers += [Answer(slots, cannot(node, reply.error))] if slots else []
                else:  # it may come back, under this or another number; then it is asked again
                    self._forget(node)
                    losses.update(slots)
                    lost = [slot for slot in slots if losses[slot] >= MOST_DEATHS]
                    answers += [Answer([slot], lost_thrice(ids[slot], reply.error)) for slot in lost]
                    owed.update(set(slots) - set(lost))
            answers += self._late(ids, deadline)
            time.sleep(LOOK)
        return answers

    def _late(self, ids: dict[int, int], deadline: float | None) -> list[Answer]:
        """Stop waiting for messages that are out too long; should they be answered yet, nobody will look."""
        if deadline is None:
            return []
        now = time.monotonic()
        late = {name: sent for name, sent in self.out.items() if now - sent.at > deadline * max(1, len(sent.slots))}
        for name in late:
            del self.out[name]
        return [
            Answer(sent.slots, overdue(ids[sent.slots[0]], sent.node, deadline)) for sent in late.values() if sent.slots
        ]

    def _at_home(self, slots: set[int], ids: dict[int, int]) -> dict[int, list[int]]:
        """Node -> those of the slots whose clients it serves."""
        homes = {slot: self._home(ids[slot]) for slot in sorted(slots)}
        return {node: [s for s in homes if homes[s] == node] for node in homes.values() if node is not None}

    def _look_round(self) -> None:
        """Ask those who are new here who they are."""
        fresh = [node for node in self.grid.get_node_ids() if node not in self.known]
        self.known.update(fresh)
        self._send(MessageType.QUERY, {node: [] for node in fresh}, lambda _: RecordDict())

    def _home(self, client: int) -> int | None:
        return next((node for node, parts in self.serves.items() if any(client in part for part in parts)), None)

    def _send(self, kind: str, to: dict[int, list[int]], content: Callable[[list[int]], RecordDict]) -> None:
        for node, slots in to.items():
            sent = next(iter(self.grid.push_messages([Message(content(slots), node, kind)])), None)
            if sent is None:  # Flower does not know the node any more
                self._forget(node)
            else:
                self.out[sent] = Sent(node, slots, time.monotonic())

    def _meet(self, node: int, content: RecordDict) -> None:
        """Learn from its first answer whose work a node does."""
        words = content.config_records["node"]
        there = json.loads(str(words["about"]))
        differing = [
            f"{name} {there.get(name)} and not {mine}" for name, mine in about().items() if there.get(name) != mine
        ]
        if differing:
            raise ValueError(f"node {node} has {', '.join(differing)}; install the same versions on both sides")
        self.serves[node] = clients_of(words["clients"])

    def _forget(self, node: int) -> None:
        self.serves.pop(node, None)
        self.known.discard(node)

    def _nobody(self, clients: list[int]) -> ClientFault:
        there = [f"{p.start}-{p.stop - 1}" for parts in self.serves.values() for p in parts] or ["nobody"]
        text = (
            f"for {self.patience:.0f} s no node served client {clients[0]} ({len(clients)} of the cohort have none; served "
            f"are {', '.join(there)}); start its SuperNode (again), then go on with --resume"
        )
        return ClientFault(FaultCode.LATE, RuntimeError(text))


def flower_executor(nodes: Organisations, words: dict[str, str], faults: Faults, tell: ReportFault) -> ClientExecutor:
    """`words` name the recipe, its settings and the arm. One seed is asked for after the other."""

    def perform(exchange: Exchange, request: WorkRequest, expected: WorkResult) -> ClientResults:
        ids = np.asarray(request.cohort.ids).tolist()
        answers: ClientResults = {}
        wanted = {slot: ids[slot] for slot in present_slots(request)}
        for slots, came in nodes.collect(wanted, _content(exchange, request, words), faults.deadline):
            answers |= by_slot(slots, came, expected)
        return answers

    return ClientExecutor(
        collecting_executor(
            lambda exchange, requests, expected: [perform(exchange, request, expected) for request in requests],
            faults,
            tell,
        )
    )


def _content(exchange: Exchange, request: WorkRequest, words: dict[str, str]) -> Callable[[list[int]], RecordDict]:
    """(slots) -> what a node is sent for them; what all nodes are sent is packed once."""
    common = arrays(
        looked_at(exchange.send, request.server)
        | named("cohort", request.cohort)
        | named("key", request.key)
        | named("seed", request.seed)
    )

    def content(slots: list[int]) -> RecordDict:
        memory = arrays(named("memory", jax.tree.map(lambda x: x[np.array(slots)], request.clients.memory)))
        which = ConfigRecord({**words, "exchange": exchange.name, "slots": slots})
        return RecordDict({"asked": which, "arrays": ArrayRecord(common | memory)})

    return content
